package org.flinkagents.durable;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.dag.Transformation;
import org.apache.flink.api.java.functions.KeySelector;
import org.apache.flink.api.java.typeutils.RowTypeInfo;
import org.apache.flink.configuration.CheckpointingOptions;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.configuration.RestartStrategyOptions;
import org.apache.flink.python.PythonOptions;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink;
import org.apache.flink.streaming.api.transformations.OneInputTransformation;
import org.apache.flink.test.junit5.MiniClusterExtension;
import org.apache.flink.types.Row;
import org.apache.flink.util.CloseableIterator;
import org.apache.flink.util.InstantiationUtil;
import org.flinkagents.durable.JavaProgramAgents.Failing;
import org.flinkagents.durable.JavaProgramAgents.Failures;
import org.flinkagents.durable.JavaProgramAgents.Greeter;
import org.flinkagents.durable.JavaProgramAgents.Greeting;
import org.flinkagents.durable.JavaProgramAgents.HeldCalls;
import org.flinkagents.durable.JavaProgramAgents.Mirror;
import org.flinkagents.durable.JavaProgramAgents.Order;
import org.flinkagents.durable.api.Action;
import org.flinkagents.durable.api.Agent;
import org.flinkagents.durable.api.AgentOptions;
import org.flinkagents.durable.api.AgentsExecutionEnvironment;
import org.flinkagents.durable.api.DeadLetter;
import org.flinkagents.durable.api.Event;
import org.flinkagents.durable.api.InputEvent;
import org.flinkagents.durable.api.RunnerContext;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.extension.RegisterExtension;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Jobs of Java programs: no Python program takes part. */
@Timeout(240)
class JavaProgramTest {
    @RegisterExtension static final MiniClusterExtension CLUSTER = Clusters.ofOneTaskManager(2);

    @TempDir private Path folder;

    @BeforeEach
    @AfterEach
    void reset() {
        HeldCalls.reset();
    }

    @Test
    void anAgentOfAJavaProgramAnswersItsInputs() throws Exception {
        StreamExecutionEnvironment env = environment();
        AgentsExecutionEnvironment agents = agents(env);
        DataStream<Greeting> greetings =
                agents.fromDataStream(
                                env.fromData(
                                        new Order("anna", 1),
                                        new Order("bob", 2),
                                        new Order("anna", 3)),
                                order -> order.user)
                        .apply(new Greeter("hello"))
                        .toDataStream(Greeting.class);
        List<Greeting> all = collected(env, greetings);
        all.sort(Comparator.comparing((Greeting g) -> g.text));
        assertEquals(
                List.of("hello anna: 1 order", "hello anna: 2 orders", "hello bob: 1 order"),
                texts(all));
        assertEquals(List.of(1, 3, 2), amounts(all));
    }

    @Test
    void l1AndL2ATaskThatFailsInTheMiddleOfACallRepeatsNoFinishedOne() throws Exception {
        StreamExecutionEnvironment env = environment();
        AgentsExecutionEnvironment agents = agents(env);
        agents.getConfig().set(AgentOptions.STORE_TYPE, "sqlite");
        agents.getConfig().set(AgentOptions.STORE_SQLITE_PATH, folder.toString());
        DataStream<Object> outputs =
                agents.fromDataStream(env.fromData("a", "b", "c"), name -> name)
                        .apply(new HeldCalls(), "held")
                        .toDataStream();
        List<Object> all = collected(env, outputs.map(new Failing()).setParallelism(1));
        all.sort(Comparator.comparing(String::valueOf));
        assertEquals(1, Failing.FAILURES.get());
        assertEquals(
                List.of(
                        "a begins", "a first, a second",
                        "b begins", "b first, b second",
                        "c begins", "c first, c second"),
                all);
        for (String name : List.of("a", "b", "c")) {
            assertEquals(1, HeldCalls.count(name + " first"), HeldCalls.MADE::toString);
        }
        assertTrue(HeldCalls.MADE.size() > 6, HeldCalls.MADE::toString); // second calls ran again
    }

    @Test
    void k3ValuesAndKeysOfManyKindsCross() throws Exception {
        assertEquals(
                "[text, text]", mirrored(Types.STRING, value -> value, "text").get(0).toString());
        assertEquals("[7, 7]", mirrored(Types.INT, value -> value, 7).get(0).toString());
        assertEquals(
                "[[9000000000, b], 9000000000]",
                mirrored(Types.LONG, value -> List.of(value, "b"), 9_000_000_000L)
                        .get(0)
                        .toString());
        List<?> bytes =
                (List<?>)
                        mirrored(
                                        TypeInformation.of(byte[].class),
                                        value -> (int) value[0],
                                        new byte[] {1, -1})
                                .get(0);
        assertEquals(1L, bytes.get(0));
        assertEquals("[1, -1]", Arrays.toString((byte[]) bytes.get(1)));
        Row row = Row.withNames();
        row.setField("user", "anna");
        row.setField("n", 1);
        RowTypeInfo type =
                new RowTypeInfo(
                        new TypeInformation<?>[] {Types.STRING, Types.INT},
                        new String[] {"user", "n"});
        assertEquals(
                List.of("anna", Map.of("user", "anna", "n", 1L)),
                mirrored(type, value -> value.getField("user"), row).get(0));
    }

    @Test
    void theKeyOfAKeyedStreamIsTaken() throws Exception {
        StreamExecutionEnvironment env = environment();
        DataStream<Object> outputs =
                agents(env)
                        .fromDataStream(
                                env.fromData("a1", "b2").keyBy(text -> text.charAt(0) == 'a'))
                        .apply(new Mirror())
                        .toDataStream();
        List<Object> all = collected(env, outputs);
        all.sort(Comparator.comparing(String::valueOf));
        assertEquals(List.of(List.of(false, "b2"), List.of(true, "a1")), all);
    }

    @Test
    void l3RecordsAreNotSpreadBeforeTheyArePartitioned() {
        StreamExecutionEnvironment env = environment();
        DataStream<Object> outputs =
                agents(env)
                        .fromDataStream(env.fromData("x"), text -> text)
                        .apply(new Mirror())
                        .toDataStream();
        Map<String, Integer> parallelism = new HashMap<>();
        outputs.getTransformation()
                .getTransitivePredecessors()
                .forEach(part -> parallelism.put(part.getName(), part.getParallelism()));
        assertEquals(1, parallelism.get("Mirror: key"));
        assertEquals(1, parallelism.get("Mirror: encode"));
        assertEquals(2, parallelism.get("Mirror"));
    }

    @Test
    void propertiesOfStoresTravelInTheConfigurationAndNotInThePlan() throws Exception {
        String key = "agents.store.kafka.properties.sasl.password";
        StreamExecutionEnvironment env = environment();
        AgentsExecutionEnvironment agents = agents(env);
        agents.getConfig().setString(key, "not-in-the-plan");
        DataStream<Object> outputs =
                agents.fromDataStream(env.fromData("x"), text -> text)
                        .apply(new Mirror())
                        .toDataStream();
        assertEquals("not-in-the-plan", env.getConfiguration().toMap().get(key));
        for (Transformation<?> part : outputs.getTransformation().getTransitivePredecessors()) {
            if (part instanceof OneInputTransformation) {
                byte[] factory =
                        InstantiationUtil.serializeObject(
                                ((OneInputTransformation<?, ?>) part).getOperatorFactory());
                String text = new String(factory, StandardCharsets.ISO_8859_1);
                assertFalse(text.contains("not-in-the-plan"), part.getName());
                assertEquals(part.getName().equals("Mirror"), text.contains("agents.store.type"));
            }
        }
    }

    @Test
    void k14DeadLettersAreAStreamAndMustBeRead() throws Exception {
        StreamExecutionEnvironment env = environment();
        var applied =
                agents(env)
                        .fromDataStream(env.fromData(new Order("anna", 1)), order -> order.user)
                        .apply(new Failures());
        applied.toDataStream().sinkTo(new DiscardingSink<>());
        List<DeadLetter> letters = collected(env, applied.deadLetters());
        assertEquals(1, letters.size());
        DeadLetter letter = letters.get(0);
        assertEquals("anna", letter.getKey());
        assertEquals(1, letter.getInput(Order.class).amount);
        assertEquals("fail", letter.getAction());
        assertEquals("java.lang.IllegalStateException: no such order", letter.getError());

        StreamExecutionEnvironment other = environment();
        agents(other)
                .fromDataStream(other.fromData(new Order("anna", 1)), order -> order.user)
                .apply(new Failures())
                .toDataStream()
                .sinkTo(new DiscardingSink<>());
        assertTrue(failure(other).contains("nothing reads them"));
    }

    @Test
    void k9TheInterpreterOfAnArchiveIsFound() throws Exception {
        Path launcher = Files.createDirectory(folder.resolve("bin")).resolve("python");
        Files.writeString(launcher, "#!/bin/sh\nexec " + PemjaRuntimeTest.PYTHON + " \"$@\"\n");
        assertTrue(launcher.toFile().setExecutable(true));
        Path archive = folder.resolve("environment.tar.gz");
        Process tar =
                new ProcessBuilder("tar", "czf", archive.toString(), "-C", "" + folder, "bin")
                        .start();
        assertEquals(0, tar.waitFor());
        StreamExecutionEnvironment env = environment();
        env.configure(
                new Configuration()
                        .set(PythonOptions.PYTHON_ARCHIVES, archive + "#environment")
                        .set(PythonOptions.PYTHON_EXECUTABLE, "environment/bin/python"));
        DataStream<Object> outputs =
                agents(env)
                        .fromDataStream(env.fromData("x"), text -> text)
                        .apply(new Mirror())
                        .toDataStream();
        assertEquals(List.of(List.of("x", "x")), collected(env, outputs));
    }

    @Test
    void wrongOptionsAreNamed() throws Exception {
        StreamExecutionEnvironment env = environment();
        AgentsExecutionEnvironment agents = agents(env);
        agents.getConfig().setString("agents.mismatch-polcy", "fail");
        agents.fromDataStream(env.fromData("x"), text -> text)
                .apply(new Mirror())
                .toDataStream()
                .sinkTo(new DiscardingSink<>());
        assertTrue(failure(env).contains("did you mean 'agents.mismatch-policy'?"));
    }

    @ParameterizedTest
    @ValueSource(
            strings = {
                "has no actions",
                "must take (Event, RunnerContext)",
                "the event 'own' is a Event",
                "onFailure is fail, skip or dead-letter",
                "two operators of this job have the uid",
                "needs a uid"
            })
    void whatCannotWorkIsRefusedWhenItIsApplied(String message) {
        StreamExecutionEnvironment env = environment();
        var builder = agents(env).fromDataStream(env.fromData("x"), text -> text);
        Runnable apply =
                Map.<String, Runnable>of(
                                "has no actions", () -> builder.apply(new NoActions()),
                                "must take (Event, RunnerContext)",
                                        () -> builder.apply(new NoContext()),
                                "the event 'own' is a Event", () -> builder.apply(new WrongEvent()),
                                "onFailure is fail, skip or dead-letter",
                                        () -> builder.apply(new WrongPolicy()),
                                "two operators of this job have the uid",
                                        () -> {
                                            builder.apply(new Mirror());
                                            agents(env)
                                                    .fromDataStream(env.fromData("x"), text -> text)
                                                    .apply(new Mirror());
                                        },
                                "needs a uid", () -> builder.apply(new Mirror() {}))
                        .get(message);
        Exception error = assertThrows(IllegalArgumentException.class, apply::run);
        assertTrue(
                error.getMessage().toLowerCase().contains(message.toLowerCase()),
                error::getMessage);
    }

    static final class NoActions extends Agent {
        private static final long serialVersionUID = 1L;
    }

    static final class NoContext extends Agent {
        private static final long serialVersionUID = 1L;

        @Action(InputEvent.EVENT_TYPE)
        void act(Event event) {}
    }

    static final class WrongEvent extends Agent {
        private static final long serialVersionUID = 1L;

        @Action("own")
        void act(InputEvent event, RunnerContext ctx) {}
    }

    static final class WrongPolicy extends Agent {
        private static final long serialVersionUID = 1L;

        @Action(value = "own", onFailure = "ignore")
        void act(Event event, RunnerContext ctx) {}
    }

    // ---------------------------------------------------------------- jobs

    static StreamExecutionEnvironment environment() {
        Configuration configuration = new Configuration();
        JavaAgents.configure(configuration);
        configuration.set(CheckpointingOptions.CHECKPOINTING_INTERVAL, Duration.ofMillis(200));
        configuration.set(RestartStrategyOptions.RESTART_STRATEGY, "fixed-delay");
        configuration.set(
                RestartStrategyOptions.RESTART_STRATEGY_FIXED_DELAY_DELAY, Duration.ofMillis(10));
        configuration.set(RestartStrategyOptions.RESTART_STRATEGY_FIXED_DELAY_ATTEMPTS, 2);
        StreamExecutionEnvironment env =
                StreamExecutionEnvironment.getExecutionEnvironment(configuration);
        env.setParallelism(2);
        return env;
    }

    static AgentsExecutionEnvironment agents(StreamExecutionEnvironment env) {
        AgentsExecutionEnvironment agents = AgentsExecutionEnvironment.getExecutionEnvironment(env);
        agents.getConfig().set(AgentOptions.STORE_TYPE, "none");
        return agents;
    }

    @SafeVarargs
    @SuppressWarnings("varargs")
    private static <T> List<Object> mirrored(
            TypeInformation<T> type, KeySelector<T, Object> key, T... values) throws Exception {
        StreamExecutionEnvironment env = environment();
        DataStream<T> input = env.fromData(Arrays.asList(values), type);
        return collected(
                env, agents(env).fromDataStream(input, key).apply(new Mirror()).toDataStream());
    }

    private static <T> List<T> collected(StreamExecutionEnvironment env, DataStream<T> stream)
            throws Exception {
        List<T> all = new ArrayList<>();
        try (CloseableIterator<T> outputs = stream.collectAsync()) {
            env.executeAsync("java program");
            outputs.forEachRemaining(all::add);
        }
        return all;
    }

    private static String failure(StreamExecutionEnvironment env) {
        Throwable error = assertThrows(Exception.class, env::execute);
        StringBuilder text = new StringBuilder();
        for (; error != null; error = error.getCause()) {
            text.append(error.getMessage()).append('\n');
        }
        return text.toString();
    }

    private static List<String> texts(List<Greeting> greetings) {
        List<String> texts = new ArrayList<>();
        greetings.forEach(greeting -> texts.add(greeting.text));
        return texts;
    }

    private static List<Integer> amounts(List<Greeting> greetings) {
        List<Integer> amounts = new ArrayList<>();
        greetings.forEach(greeting -> amounts.add(greeting.order.amount));
        return amounts;
    }
}
