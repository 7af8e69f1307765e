package org.flinkagents.durable;

import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.concurrent.Callable;
import java.util.concurrent.TimeUnit;
import org.apache.flink.api.common.JobStatus;
import org.apache.flink.core.execution.JobClient;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink;
import org.apache.flink.test.junit5.MiniClusterExtension;
import org.flinkagents.durable.JavaProgramAgents.Asleep;
import org.flinkagents.durable.api.AgentOptions;
import org.flinkagents.durable.api.AgentsExecutionEnvironment;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.extension.RegisterExtension;

/** A job that is cancelled while its Java actions wait. */
@Timeout(240)
class JavaCancelTest {
    @RegisterExtension static final MiniClusterExtension CLUSTER = Clusters.ofOneTaskManager(2);

    /** Ten thousand on JDK 21 to 23. On others each holds a thread, and there are fewer of them. */
    @Test
    void s10AndL6ACancelEndsAllActionsThatWait() throws Exception {
        int version = Runtime.version().feature();
        int waiting = version >= 21 && version < 24 ? 10_000 : 100;
        StreamExecutionEnvironment env = JavaProgramTest.environment();
        AgentsExecutionEnvironment agents = JavaProgramTest.agents(env);
        agents.getConfig().set(AgentOptions.MAX_IN_FLIGHT_RUNS, waiting);
        agents.getConfig().set(AgentOptions.CALL_WORKERS, 100);
        agents.fromDataStream(env.fromSequence(1, waiting), number -> number)
                .apply(new Asleep())
                .toDataStream()
                .sinkTo(new DiscardingSink<>());
        Asleep.BEGUN.set(0);
        JobClient job = env.executeAsync();
        until(() -> Asleep.BEGUN.get() == waiting);
        job.cancel().get();
        until(() -> job.getJobStatus().get() == JobStatus.CANCELED);
        until(() -> Thread.getAllStackTraces().keySet().stream().noneMatch(this::isOfAnAction));
    }

    private boolean isOfAnAction(Thread thread) {
        return thread.getName().startsWith("durable action");
    }

    private static void until(Callable<Boolean> condition) throws Exception {
        long begun = System.nanoTime();
        while (!condition.call()) {
            assertTrue(System.nanoTime() - begun < TimeUnit.SECONDS.toNanos(60), "not in time");
            TimeUnit.MILLISECONDS.sleep(10);
        }
    }
}
