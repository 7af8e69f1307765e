package org.flinkagents.durable.api;

/** Metrics of an agent or an action. Updates made during a replay are not counted again. */
public interface MetricGroup {
    MetricGroup getSubGroup(String name);

    /** Counts up, or down by a negative number. */
    void count(String counter, long n);

    /** Counts events of a rate. */
    void mark(String meter, long n);

    /** Replaces the value of a gauge: a number or a text. */
    void gauge(String gauge, Object value);

    /** Adds to a distribution of whole numbers. */
    void histogram(String histogram, long value);
}
