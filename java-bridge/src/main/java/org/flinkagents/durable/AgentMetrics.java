package org.flinkagents.durable;

import java.util.HashMap;
import java.util.Map;
import org.apache.flink.metrics.Counter;
import org.apache.flink.metrics.Gauge;
import org.apache.flink.metrics.Histogram;
import org.apache.flink.metrics.Meter;
import org.apache.flink.metrics.MeterView;
import org.apache.flink.metrics.MetricGroup;
import org.apache.flink.runtime.metrics.DescriptiveStatisticsHistogram;

/** Registers the metrics that Python reports when it reports them first. */
final class AgentMetrics {
    /** Values that the quantiles of a histogram look at. */
    private static final int HISTOGRAM_WINDOW = 1_000;

    private final MetricGroup root;
    private final Map<String, Counter> counters = new HashMap<>();
    private final Map<String, LastValue> gauges = new HashMap<>();
    private final Map<String, Meter> meters = new HashMap<>();
    private final Map<String, Histogram> histograms = new HashMap<>();

    AgentMetrics(MetricGroup root) {
        this.root = root;
    }

    /** Takes (path "group.name", kind, value, ...): totals of counters, increments of meters. */
    void update(Object[] flat) {
        for (int i = 0; i < flat.length; i += 3) {
            update((String) flat[i], (String) flat[i + 1], flat[i + 2]);
        }
    }

    private void update(String path, String kind, Object value) {
        switch (kind) {
            case "c":
                Counter counter = counters.computeIfAbsent(path, p -> group(p).counter(name(p)));
                counter.inc(((Number) value).longValue() - counter.getCount());
                break;
            case "g":
                gauges.computeIfAbsent(path, p -> group(p).gauge(name(p), new LastValue())).value =
                        value;
                break;
            case "m":
                meters.computeIfAbsent(path, p -> group(p).meter(name(p), new MeterView(60)))
                        .markEvent(((Number) value).longValue());
                break;
            case "h":
                histograms
                        .computeIfAbsent(
                                path,
                                p ->
                                        group(p).histogram(
                                                        name(p),
                                                        new DescriptiveStatisticsHistogram(
                                                                HISTOGRAM_WINDOW)))
                        .update(((Number) value).longValue());
                break;
            default:
                throw new IllegalArgumentException("Unknown kind of metric: " + kind);
        }
    }

    private MetricGroup group(String path) {
        MetricGroup group = root;
        String[] parts = path.split("\\.");
        for (int i = 0; i < parts.length - 1; i++) {
            group = group.addGroup(parts[i]);
        }
        return group;
    }

    private static String name(String path) {
        return path.substring(path.lastIndexOf('.') + 1);
    }

    /** Written on the task thread, read by reporters. */
    private static final class LastValue implements Gauge<Object> {
        private volatile Object value;

        @Override
        public Object getValue() {
            return value;
        }
    }
}
