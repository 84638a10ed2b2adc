package esdedup.tests;

import java.util.HashMap;
import java.util.Map;
import java.util.function.UnaryOperator;
import java.util.regex.Pattern;
import org.apache.lucene.analysis.TokenStream;
import org.apache.lucene.analysis.minhash.MinHashFilterFactory;
import org.apache.lucene.analysis.miscellaneous.LengthFilter;
import org.apache.lucene.analysis.pattern.PatternReplaceFilter;
import org.elasticsearch.common.regex.Regex;
import org.elasticsearch.common.settings.Settings;
import org.elasticsearch.index.analysis.TokenFilterFactory;
import org.elasticsearch.indices.analysis.AnalysisModule.AnalysisProvider;
import org.elasticsearch.plugins.AnalysisPlugin;
import org.elasticsearch.plugins.Plugin;

/**
 * Three token filters of the module analysis-common, which the makers of Elasticsearch do not
 * publish, over the same classes of Lucene, with the same settings and defaults.
 */
public final class MinHashAnalysis extends Plugin implements AnalysisPlugin {

    private static final Map<String, String> MIN_HASH = Map.of(
        "hash_count", "hashCount", "bucket_count", "bucketCount",
        "hash_set_size", "hashSetSize", "with_rotation", "withRotation");

    @Override
    public Map<String, AnalysisProvider<TokenFilterFactory>> getTokenFilters() {
        return Map.of(
            "min_hash", (index, environment, name, settings) -> minHash(name, settings),
            "length", AnalysisPlugin.requiresAnalysisSettings(
                (index, environment, name, settings) -> length(name, settings)),
            "pattern_replace", AnalysisPlugin.requiresAnalysisSettings(
                (index, environment, name, settings) -> patternReplace(name, settings)));
    }

    private static TokenFilterFactory minHash(String name, Settings settings) {
        Map<String, String> arguments = new HashMap<>();
        MIN_HASH.forEach((setting, argument) -> {
            if (settings.hasValue(setting)) {
                arguments.put(argument, settings.get(setting));
            }
        });
        return new Filter(name, new MinHashFilterFactory(arguments)::create);
    }

    private static TokenFilterFactory length(String name, Settings settings) {
        int least = settings.getAsInt("min", 0);
        int most = settings.getAsInt("max", Integer.MAX_VALUE);
        return new Filter(name, stream -> new LengthFilter(stream, least, most));
    }

    private static TokenFilterFactory patternReplace(String name, Settings settings) {
        String pattern = settings.get("pattern");
        if (pattern == null) {
            throw new IllegalArgumentException(
                "pattern is missing for [" + name + "] token filter of type 'pattern_replace'");
        }
        Pattern compiled = Regex.compile(pattern, settings.get("flags"));
        String replacement = settings.get("replacement", "");
        boolean all = settings.getAsBoolean("all", true);
        return new Filter(
            name, stream -> new PatternReplaceFilter(stream, compiled, replacement, all));
    }

    private record Filter(String name, UnaryOperator<TokenStream> wrap)
        implements TokenFilterFactory {

        @Override
        public TokenStream create(TokenStream stream) {
            return wrap.apply(stream);
        }
    }
}
