package org.example;

/** An output of the agent. */
public class Verdict {
    public String user;
    public String mood;
    public String translation;
    public int reviews;

    @Override
    public String toString() {
        return user + ": " + mood + ", review " + reviews + ": " + translation;
    }
}
