package org.flinkagents.durable;

import static org.flinkagents.durable.Harness.bytes;
import static org.junit.jupiter.api.Assertions.assertEquals;

import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.zip.ZipEntry;
import java.util.zip.ZipOutputStream;
import org.apache.flink.api.common.typeinfo.PrimitiveArrayTypeInfo;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.configuration.RestartStrategyOptions;
import org.apache.flink.python.PythonOptions;
import org.apache.flink.python.util.PythonConfigUtil;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.test.junit5.MiniClusterExtension;
import org.apache.flink.types.Row;
import org.apache.flink.util.CloseableIterator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.extension.RegisterExtension;
import org.junit.jupiter.api.io.TempDir;

/** What a PyFlink program adds to its job reaches the operator, as it reaches PyFlink's own. */
@Timeout(120)
class PythonDependenciesTest {
    @RegisterExtension static final MiniClusterExtension CLUSTER = Clusters.ofOneTaskManager(2);

    @TempDir private Path folder;

    @Test
    void k9PythonFilesAndArchivesOfTheJobAreThere() throws Exception {
        Path module = folder.resolve("shipped_operator.py");
        Files.copy(Path.of("src/test/resources/python/bridge_probe.py"), module);
        Path archive = folder.resolve("model.zip");
        try (ZipOutputStream zip = new ZipOutputStream(Files.newOutputStream(archive))) {
            zip.putNextEntry(new ZipEntry("model.txt"));
            zip.write(bytes("weights"));
        }
        Configuration configuration = new Configuration();
        configuration.set(PythonOptions.PYTHON_EXECUTABLE, PemjaRuntimeTest.PYTHON);
        configuration.set(PythonOptions.PYTHON_FILES, module.toString());
        configuration.set(PythonOptions.PYTHON_ARCHIVES, archive + "#data");
        configuration.set(RestartStrategyOptions.RESTART_STRATEGY, "none");
        StreamExecutionEnvironment env =
                StreamExecutionEnvironment.getExecutionEnvironment(configuration);
        env.setParallelism(2);
        DataStream<Row> input =
                env.fromData(
                        Types.ROW(
                                PrimitiveArrayTypeInfo.BYTE_PRIMITIVE_ARRAY_TYPE_INFO,
                                PrimitiveArrayTypeInfo.BYTE_PRIMITIVE_ARRAY_TYPE_INFO),
                        Row.of(bytes("k"), bytes("archive")),
                        Row.of(bytes("k"), bytes("plan")));
        DataStream<byte[]> outputs =
                DurableAgents.apply(
                        input,
                        "agents",
                        "agents",
                        bytes("plan"),
                        10,
                        1_000,
                        false,
                        "shipped_operator");
        PythonConfigUtil.configPythonOperator(env); // as PyFlink does when a job is executed
        List<String> texts = new ArrayList<>();
        try (CloseableIterator<byte[]> iterator = outputs.executeAndCollect()) {
            iterator.forEachRemaining(o -> texts.add(new String(o, StandardCharsets.UTF_8)));
        }
        assertEquals(List.of("weights", "plan"), texts);
    }
}
