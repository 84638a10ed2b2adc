package esdedup.tests;

import java.util.List;
import java.util.Map;
import java.util.regex.Pattern;
import org.apache.lucene.analysis.TokenStream;
import org.apache.lucene.analysis.email.UAX29URLEmailTokenizer;
import org.apache.lucene.analysis.pattern.PatternCaptureGroupTokenFilter;
import org.elasticsearch.common.settings.Settings;
import org.elasticsearch.index.analysis.AbstractTokenFilterFactory;
import org.elasticsearch.index.analysis.PreConfiguredTokenFilter;
import org.elasticsearch.index.analysis.PreConfiguredTokenizer;
import org.elasticsearch.index.analysis.TokenFilterFactory;
import org.elasticsearch.indices.analysis.AnalysisModule.AnalysisProvider;
import org.elasticsearch.plugins.AnalysisPlugin;
import org.elasticsearch.plugins.Plugin;

/**
 * The analyzer of e-mail addresses that the index of users, roles and API keys needs. Its makers do
 * not publish the module analysis-common, which has it. No search of ours uses it.
 */
public final class SecurityIndexAnalysis extends Plugin implements AnalysisPlugin {

    @Override
    public Map<String, AnalysisProvider<TokenFilterFactory>> getTokenFilters() {
        return Map.of("pattern_capture", AnalysisPlugin.requiresAnalysisSettings(
            (index, environment, name, settings) -> new PatternCapture(name, settings)));
    }

    @Override
    public List<PreConfiguredTokenFilter> getPreConfiguredTokenFilters() {
        return List.of(PreConfiguredTokenFilter.singleton("unique", false, stream -> stream));
    }

    @Override
    public List<PreConfiguredTokenizer> getPreConfiguredTokenizers() {
        return List.of(
            PreConfiguredTokenizer.singleton("uax_url_email", UAX29URLEmailTokenizer::new));
    }

    private static final class PatternCapture extends AbstractTokenFilterFactory {
        private final Pattern[] patterns;

        PatternCapture(String name, Settings settings) {
            super(name);
            patterns = settings.getAsList("patterns").stream()
                .map(Pattern::compile).toArray(Pattern[]::new);
        }

        @Override
        public TokenStream create(TokenStream stream) {
            return new PatternCaptureGroupTokenFilter(stream, true, patterns);
        }
    }
}
