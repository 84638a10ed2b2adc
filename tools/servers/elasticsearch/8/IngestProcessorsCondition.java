package esdedup.tests;

import java.util.Map;
import java.util.function.Predicate;
import org.elasticsearch.script.IngestConditionalScript;

/** A condition of a pipeline, as Elasticsearch 8 calls it. */
final class IngestProcessorsCondition {

    static IngestConditionalScript.Factory of(Predicate<Map<String, Object>> condition) {
        return params -> new IngestConditionalScript(params) {
            @Override
            public boolean execute(Map<String, Object> ctx) {
                return condition.test(ctx);
            }
        };
    }
}
