package org.example;

import java.util.Map;
import org.flinkagents.durable.api.DurableCallable;
import org.flinkagents.durable.api.Event;
import org.flinkagents.durable.api.RunnerContext;

/** An action for an agent written in Python: examples/mixed_agent.py. */
public class Prices {
    private static final Map<String, Long> CENTS = Map.of("tea", 350L, "cake", 420L);

    public static void price(Event event, RunnerContext ctx) throws Exception {
        String item = event.getAttr("item", String.class);
        Long cents =
                ctx.await(
                        ctx.durableExecuteAsync(
                                DurableCallable.of("price", Long.class, () -> lookUp(item), item)));
        ctx.sendEvent(new Event("priced", Map.of("item", item, "cents", cents)));
    }

    /** Stands for a library that there is in Java alone. */
    private static Long lookUp(String item) {
        return CENTS.getOrDefault(item, 0L);
    }
}
