package org.example;

/** An input of the agent. */
public class Review {
    public String user;
    public String text;

    public Review() {}

    public Review(String user, String text) {
        this.user = user;
        this.text = text;
    }
}
