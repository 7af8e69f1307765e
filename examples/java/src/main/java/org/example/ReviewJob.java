package org.example;

import org.apache.flink.configuration.Configuration;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.flinkagents.durable.api.AgentsExecutionEnvironment;

/** A job with an agent. Options of Flink and of the agents may be given as -Dkey=value. */
public class ReviewJob {
    public static void main(String[] arguments) throws Exception {
        StreamExecutionEnvironment env =
                StreamExecutionEnvironment.getExecutionEnvironment(options(arguments));
        AgentsExecutionEnvironment agents = AgentsExecutionEnvironment.getExecutionEnvironment(env);

        DataStream<Review> reviews =
                env.fromData(
                        new Review("anna", "a great book"),
                        new Review("bob", "I fell asleep"),
                        new Review("anna", "not as good as the first"));

        agents.fromDataStream(reviews, review -> review.user)
                .apply(new ReviewAgent("fr"))
                .toDataStream(Verdict.class)
                .print();
        env.execute("reviews");
    }

    private static Configuration options(String[] arguments) {
        Configuration options = new Configuration();
        for (String argument : arguments) {
            int equals = argument.indexOf('=');
            options.setString(
                    argument.substring("-D".length(), equals), argument.substring(equals + 1));
        }
        return options;
    }
}
