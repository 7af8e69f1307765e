"""What surrounds the engine in a Flink task: call executor, watermarks, metrics, entry points."""
