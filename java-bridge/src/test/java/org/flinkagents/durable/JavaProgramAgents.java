package org.flinkagents.durable;

import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.flink.api.common.functions.MapFunction;
import org.flinkagents.durable.api.Action;
import org.flinkagents.durable.api.Agent;
import org.flinkagents.durable.api.DurableCallable;
import org.flinkagents.durable.api.Event;
import org.flinkagents.durable.api.InputEvent;
import org.flinkagents.durable.api.MemoryObject;
import org.flinkagents.durable.api.OutputEvent;
import org.flinkagents.durable.api.RunnerContext;

/** Agents of Java programs, and the beans that they take and give. */
final class JavaProgramAgents {
    private JavaProgramAgents() {}

    public static final class Order {
        public String user;
        public int amount;

        public Order() {}

        Order(String user, int amount) {
            this.user = user;
            this.amount = amount;
        }
    }

    public static final class Greeting {
        public String text;
        public Order order;

        public Greeting() {}

        Greeting(String text, Order order) {
            this.text = text;
            this.order = order;
        }
    }

    static final class Call implements DurableCallable<String> {
        private final String id;
        private final Callable<String> body;

        Call(String id, Callable<String> body) {
            this.id = id;
            this.body = body;
        }

        @Override
        public String getId() {
            return id;
        }

        @Override
        public Class<String> getResultClass() {
            return String.class;
        }

        @Override
        public String call() throws Exception {
            return body.call();
        }
    }

    /** Has a field, two actions, and an action that its base class marks. */
    static final class Greeter extends CountingAgent {
        private static final long serialVersionUID = 1L;

        private final String word;
        private transient int counted;

        Greeter(String word) {
            this.word = word;
        }

        @Override
        void count(InputEvent event, RunnerContext ctx) throws Exception {
            counted++; // both actions have one object
            super.count(event, ctx);
        }

        @Action("counted")
        private void greet(Event event, RunnerContext ctx) throws Exception {
            if (counted == 0) {
                throw new IllegalStateException("an object of its own");
            }
            Order order = event.getAttr("order", Order.class);
            Long orders = event.getAttr("orders", Long.class);
            String name =
                    ctx.await(
                            ctx.durableExecuteAsync(
                                    new Call("name", () -> word + " " + order.user)));
            String text = name + ": " + orders + (orders == 1 ? " order" : " orders");
            ctx.sendEvent(new OutputEvent(new Greeting(text, order)));
        }
    }

    abstract static class CountingAgent extends Agent {
        private static final long serialVersionUID = 1L;

        @Action(InputEvent.EVENT_TYPE)
        void count(InputEvent event, RunnerContext ctx) throws Exception {
            MemoryObject memory = ctx.getShortTermMemory();
            Long before = memory.get("orders", Long.class);
            long orders = before == null ? 1 : before + 1;
            memory.set("orders", orders);
            Event counted = new Event("counted");
            counted.setAttr("order", event.getInput(Order.class));
            counted.setAttr("orders", orders);
            ctx.sendEvent(counted);
        }
    }

    /** Gives what it gets. */
    static class Mirror extends Agent {
        private static final long serialVersionUID = 1L;

        @Action(InputEvent.EVENT_TYPE)
        void mirror(InputEvent event, RunnerContext ctx) {
            List<Object> both = new ArrayList<>();
            both.add(ctx.getKey());
            both.add(event.getInput());
            ctx.sendEvent(new OutputEvent(both));
        }
    }

    static final class Failures extends Agent {
        private static final long serialVersionUID = 1L;

        @Action(value = InputEvent.EVENT_TYPE, onFailure = "dead-letter")
        void fail(InputEvent event, RunnerContext ctx) {
            throw new IllegalStateException("no such order");
        }
    }

    /** The second call of each input hangs until the job has failed. */
    static final class HeldCalls extends Agent {
        private static final long serialVersionUID = 1L;

        static final List<String> MADE = Collections.synchronizedList(new ArrayList<>());
        static volatile CountDownLatch held;

        static void reset() {
            MADE.clear();
            held = new CountDownLatch(3);
            Failing.FAILURES.set(0);
        }

        static long count(String call) {
            return List.copyOf(MADE).stream().filter(call::equals).count();
        }

        @Action(InputEvent.EVENT_TYPE)
        void act(InputEvent event, RunnerContext ctx) throws Exception {
            String name = event.getInput(String.class);
            String first =
                    ctx.await(ctx.durableExecuteAsync(new Call("first", () -> made(name, 1))));
            ctx.sendEvent(new OutputEvent(name + " begins"));
            String second =
                    ctx.await(ctx.durableExecuteAsync(new Call("second", () -> made(name, 2))));
            ctx.sendEvent(new OutputEvent(first + ", " + second));
        }

        private static String made(String name, int call) throws Exception {
            String made = name + (call == 1 ? " first" : " second");
            MADE.add(made);
            if (call == 2 && Failing.FAILURES.get() == 0) {
                held.countDown();
                new CountDownLatch(1).await();
            }
            return made;
        }
    }

    /** Waits for longer than any test. */
    static final class Asleep extends Agent {
        private static final long serialVersionUID = 1L;

        static final AtomicInteger BEGUN = new AtomicInteger();

        @Action(InputEvent.EVENT_TYPE)
        void act(InputEvent event, RunnerContext ctx) throws Exception {
            BEGUN.incrementAndGet();
            ctx.sleep(Duration.ofDays(1));
        }
    }

    /** Fails the job once, when the second calls of all inputs run. */
    static final class Failing implements MapFunction<Object, Object> {
        private static final long serialVersionUID = 1L;

        static final AtomicInteger FAILURES = new AtomicInteger();
        private int seen;

        @Override
        public Object map(Object value) throws Exception {
            if (++seen == 3 && FAILURES.get() == 0) {
                HeldCalls.held.await();
                FAILURES.incrementAndGet();
                throw new IllegalStateException("failed on purpose");
            }
            return value;
        }
    }
}
