from datatrove.executor import LocalPipelineExecutor
from datatrove.pipeline.dedup import (
    MinhashDedupBuckets,
    MinhashDedupCluster,
    MinhashDedupFilter,
    MinhashDedupSignature,
)
from datatrove.pipeline.readers import JsonlReader
from datatrove.pipeline.writers import JsonlWriter

reader = JsonlReader(".", glob_pattern="documents.jsonl")
stages = [
    (1, [reader, MinhashDedupSignature("work/signatures")]),
    (14, [MinhashDedupBuckets("work/signatures", "work/buckets")]),
    (1, [MinhashDedupCluster("work/buckets", "work/remove")]),
    (1, [reader, MinhashDedupFilter("work/remove"), JsonlWriter("out")]),
]
for tasks, pipeline in stages:
    LocalPipelineExecutor(pipeline, tasks=tasks, workers=1).run()
