package esdedup.tests;

import java.lang.reflect.Proxy;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.Locale;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.function.Consumer;
import java.util.function.Function;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.elasticsearch.common.settings.Settings;
import org.elasticsearch.ingest.AbstractProcessor;
import org.elasticsearch.ingest.ConfigurationUtils;
import org.elasticsearch.ingest.IngestDocument;
import org.elasticsearch.ingest.Processor;
import org.elasticsearch.plugins.IngestPlugin;
import org.elasticsearch.plugins.Plugin;
import org.elasticsearch.plugins.ScriptPlugin;
import org.elasticsearch.script.IngestConditionalScript;
import org.elasticsearch.script.ScriptContext;
import org.elasticsearch.script.ScriptEngine;

/**
 * Some processors of the module ingest-common, and the conditions of pipelines, neither of which
 * the makers of Elasticsearch publish, with the settings of theirs: {@code drop}, {@code fail},
 * {@code set} (value or copy_from, {@code _id} and {@code _index} too), {@code remove},
 * {@code rename}, {@code lowercase}, {@code html_strip}, {@code reroute} (destination).
 *
 * <p>A condition ({@code if}) is {@code ctx.FIELD == 'VALUE'}, {@code ctx.FIELD != 'VALUE'}, or the
 * same with {@code null}. There are no templates.
 */
public final class IngestProcessors extends Plugin implements IngestPlugin, ScriptPlugin {

    @FunctionalInterface
    private interface Step {
        /** Changes the document; returns null to drop it. */
        IngestDocument apply(IngestDocument document) throws Exception;
    }

    @Override
    public Map<String, Processor.Factory> getProcessors(Processor.Parameters parameters) {
        Map<String, Processor.Factory> factories = new LinkedHashMap<>();
        add(factories, "drop", settings -> document -> null);
        add(factories, "fail", settings -> {
            String message = settings.text("message");
            return document -> {
                throw new IllegalStateException(message);
            };
        });
        add(factories, "set", IngestProcessors::set);
        add(factories, "remove", settings -> {
            String field = settings.text("field");
            return changed(document -> document.removeField(field));
        });
        add(factories, "rename", settings -> {
            String field = settings.text("field");
            String target = settings.text("target_field");
            return changed(document -> {
                Object value = document.getFieldValue(field, Object.class);
                document.removeField(field);
                document.setFieldValue(target, value);
            });
        });
        add(factories, "lowercase", settings -> rewrite(
            settings.text("field"), text -> text.toLowerCase(Locale.ROOT)));
        add(factories, "html_strip", settings -> rewrite(
            settings.text("field"), text -> text.replaceAll("<[^>]*>", "")));
        add(factories, "reroute", settings -> {
            String destination = settings.text("destination");
            return changed(document -> document.reroute(destination));
        });
        return factories;
    }

    private static Step set(Configuration settings) {
        String field = settings.text("field");
        Object value = settings.values().remove("value");
        Object copied = settings.values().remove("copy_from");
        return changed(document -> document.setFieldValue(
            field,
            copied == null ? value : document.getFieldValue(copied.toString(), Object.class)));
    }

    private static Step rewrite(String field, Function<String, String> change) {
        return changed(document -> document.setFieldValue(
            field, change.apply(document.getFieldValue(field, String.class))));
    }

    private static Step changed(Consumer<IngestDocument> change) {
        return document -> {
            change.accept(document);
            return document;
        };
    }

    /** The settings of one processor; the server refuses those that nothing has read. */
    private record Configuration(String type, String tag, Map<String, Object> values) {
        String text(String name) {
            return ConfigurationUtils.readStringProperty(type, tag, values, name);
        }
    }

    /** The method has one argument more since 9.0, so one source for both needs a proxy. */
    @SuppressWarnings("unchecked")
    private static void add(
        Map<String, Processor.Factory> factories,
        String type,
        Function<Configuration, Step> parse
    ) {
        Object factory = Proxy.newProxyInstance(
            IngestProcessors.class.getClassLoader(),
            new Class<?>[] { Processor.Factory.class },
            (proxy, method, arguments) -> {
                if (!method.getName().equals("create")) {
                    return method.invoke(factories, arguments);
                }
                String tag = (String) arguments[1];
                Map<String, Object> values = (Map<String, Object>) arguments[3];
                Step step = parse.apply(new Configuration(type, tag, values));
                return new StepProcessor(type, tag, (String) arguments[2], step);
            });
        factories.put(type, (Processor.Factory) factory);
    }

    private static final class StepProcessor extends AbstractProcessor {
        private final String type;
        private final Step step;

        StepProcessor(String type, String tag, String description, Step step) {
            super(tag, description);
            this.type = type;
            this.step = step;
        }

        @Override
        public IngestDocument execute(IngestDocument document) throws Exception {
            return step.apply(document);
        }

        @Override
        public String getType() {
            return type;
        }
    }

    @Override
    public ScriptEngine getScriptEngine(
        Settings settings, Collection<ScriptContext<?>> contexts
    ) {
        return new Conditions();
    }

    /** Stands in for the language of conditions, which compares one field here. */
    private static final class Conditions implements ScriptEngine {
        private static final Pattern COMPARISON =
            Pattern.compile("\\s*ctx\\.(\\w+)\\s*([!=])=\\s*(null|'([^']*)'|\"([^\"]*)\")\\s*");

        @Override
        public String getType() {
            return "painless";
        }

        @Override
        public <T> T compile(
            String name, String code, ScriptContext<T> context, Map<String, String> parameters
        ) {
            Matcher parts = COMPARISON.matcher(code);
            if (!parts.matches() || context != IngestConditionalScript.CONTEXT) {
                throw new IllegalArgumentException(
                    "only ctx.FIELD == 'VALUE' is known to this test server: " + code);
            }
            String field = parts.group(1);
            boolean equal = parts.group(2).equals("=");
            String value = parts.group(4) != null ? parts.group(4) : parts.group(5);
            return context.factoryClazz.cast(IngestProcessorsCondition.of(
                ctx -> equal == Objects.equals(ctx.get(field), value)));
        }

        @Override
        public Set<ScriptContext<?>> getSupportedContexts() {
            return Set.of(IngestConditionalScript.CONTEXT);
        }
    }
}
