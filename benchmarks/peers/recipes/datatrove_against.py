from datatrove.executor import LocalPipelineExecutor
from datatrove.pipeline.dedup import (
    MinhashDedupBuckets,
    MinhashDedupCluster,
    MinhashDedupFilter,
    MinhashDedupSignature,
)
from datatrove.pipeline.readers import JsonlReader
from datatrove.pipeline.writers import JsonlWriter

old, new = JsonlReader("old"), JsonlReader("new")
index_old = MinhashDedupBuckets("work/old", "work/of-old", "work/index", create_index_name="old")
compare = MinhashDedupBuckets("work/new", "work/buckets", "work/index", only_dedup_in_index=False)
stages = [
    (1, [old, MinhashDedupSignature("work/old")]),
    (14, [index_old]),
    (1, [new, MinhashDedupSignature("work/new")]),
    (14, [compare]),
    (1, [MinhashDedupCluster("work/buckets", "work/remove")]),
    (1, [new, MinhashDedupFilter("work/remove"), JsonlWriter("out")]),
]
for tasks, pipeline in stages:
    LocalPipelineExecutor(pipeline, tasks=tasks, workers=1).run()
