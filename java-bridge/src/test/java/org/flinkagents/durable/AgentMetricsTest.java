package org.flinkagents.durable;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.util.HashMap;
import java.util.Map;
import org.apache.flink.metrics.Counter;
import org.apache.flink.metrics.Gauge;
import org.apache.flink.metrics.Histogram;
import org.apache.flink.metrics.Meter;
import org.apache.flink.metrics.Metric;
import org.apache.flink.metrics.groups.UnregisteredMetricsGroup;
import org.junit.jupiter.api.Test;

class AgentMetricsTest {
    private final Map<String, Metric> registered = new HashMap<>();
    private final AgentMetrics metrics = new AgentMetrics(new RecordingGroup(""));

    @Test
    void eachKindIsRegisteredOnceInItsGroup() {
        for (int round = 1; round <= 2; round++) {
            metrics.update(
                    new Object[] {
                        "calls",
                        "c",
                        5L * round,
                        "model.tokens.used",
                        "c",
                        3L,
                        "depth",
                        "g",
                        "text",
                        "model.rate",
                        "m",
                        4L,
                        "model.latency",
                        "h",
                        10L * round
                    });
        }
        assertEquals(5, registered.size());
        assertEquals(10, ((Counter) registered.get("calls")).getCount());
        assertEquals(3, ((Counter) registered.get("model.tokens.used")).getCount());
        assertEquals("text", ((Gauge<?>) registered.get("depth")).getValue());
        assertEquals(8, ((Meter) registered.get("model.rate")).getCount());
        assertEquals(20, ((Histogram) registered.get("model.latency")).getStatistics().getMax());
    }

    @Test
    void anUnknownKindIsNamed() {
        assertThrows(
                IllegalArgumentException.class,
                () -> metrics.update(new Object[] {"calls", "x", 1L}));
    }

    private final class RecordingGroup extends UnregisteredMetricsGroup {
        private final String prefix;

        private RecordingGroup(String prefix) {
            this.prefix = prefix;
        }

        @Override
        public Counter counter(String name) {
            return counter(name, super.counter(name));
        }

        @Override
        public <C extends Counter> C counter(String name, C counter) {
            registered.put(prefix + name, counter);
            return counter;
        }

        @Override
        public <T, G extends Gauge<T>> G gauge(String name, G gauge) {
            registered.put(prefix + name, gauge);
            return gauge;
        }

        @Override
        public <H extends Histogram> H histogram(String name, H histogram) {
            registered.put(prefix + name, histogram);
            return histogram;
        }

        @Override
        public <M extends Meter> M meter(String name, M meter) {
            registered.put(prefix + name, meter);
            return meter;
        }

        @Override
        public org.apache.flink.metrics.MetricGroup addGroup(String name) {
            return new RecordingGroup(prefix + name + ".");
        }
    }
}
