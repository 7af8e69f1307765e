package org.example;

import java.util.List;
import org.flinkagents.durable.api.Action;
import org.flinkagents.durable.api.Agent;
import org.flinkagents.durable.api.DurableCallable;
import org.flinkagents.durable.api.InputEvent;
import org.flinkagents.durable.api.MemoryObject;
import org.flinkagents.durable.api.Outcome;
import org.flinkagents.durable.api.OutputEvent;
import org.flinkagents.durable.api.RunnerContext;

/** Judges reviews by two calls at once, and remembers how many it has seen of each user. */
public class ReviewAgent extends Agent {
    private static final long serialVersionUID = 1L;

    private final String language;

    public ReviewAgent(String language) {
        this.language = language;
    }

    @Action(InputEvent.EVENT_TYPE)
    public void review(InputEvent event, RunnerContext ctx) throws Exception {
        Review review = event.getInput(Review.class);

        // Both run at once; a task that fails meanwhile makes neither again that has ended.
        List<Outcome<String>> outcomes =
                ctx.gather(
                        ctx.durableExecuteAsync(
                                DurableCallable.of(
                                        "mood",
                                        String.class,
                                        () -> mood(review.text),
                                        review.text)),
                        ctx.durableExecuteAsync(
                                DurableCallable.of(
                                        "translate",
                                        String.class,
                                        () -> translate(review.text, language),
                                        review.text,
                                        language)));

        MemoryObject memory = ctx.getShortTermMemory();
        Integer before = memory.get("reviews", Integer.class);
        int reviews = before == null ? 1 : before + 1;
        memory.set("reviews", reviews);

        Verdict verdict = new Verdict();
        verdict.user = review.user;
        verdict.mood = outcomes.get(0).getValue();
        verdict.translation = outcomes.get(1).isSuccess() ? outcomes.get(1).getValue() : null;
        verdict.reviews = reviews;
        ctx.sendEvent(new OutputEvent(verdict));
    }

    /** Stands for the call of a model, an API, a database: slow, costly, not to be made twice. */
    private static String mood(String text) {
        return text.contains("great") ? "positive" : "negative";
    }

    private static String translate(String text, String language) {
        return text + " (" + language + ")";
    }
}
