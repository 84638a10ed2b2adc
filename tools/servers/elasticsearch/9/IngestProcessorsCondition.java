package esdedup.tests;

import java.util.Map;
import java.util.function.Predicate;
import org.elasticsearch.script.IngestConditionalScript;

/** A condition of a pipeline, as Elasticsearch 9 calls it. */
final class IngestProcessorsCondition {

    static IngestConditionalScript.Factory of(Predicate<Map<String, Object>> condition) {
        return (params, ctx) -> new IngestConditionalScript(params, ctx) {
            @Override
            public boolean execute() {
                return condition.test(getCtx());
            }
        };
    }
}
