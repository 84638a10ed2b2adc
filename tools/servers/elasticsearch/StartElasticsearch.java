package org.elasticsearch.node;

import java.io.IOException;
import java.lang.reflect.Method;
import java.nio.file.Path;
import java.util.Map;
import java.util.Set;
import org.elasticsearch.common.logging.LogConfigurator;
import org.elasticsearch.common.settings.Settings;
import org.elasticsearch.env.Environment;
import org.elasticsearch.plugins.PluginBundle;
import org.elasticsearch.plugins.PluginsLoader;

/**
 * One real Elasticsearch node in this process: StartElasticsearch HOME.
 *
 * <p>All settings stand in HOME/config/elasticsearch.yml. It lives in Elasticsearch's own package
 * because the code that reads that file is not public.
 */
public final class StartElasticsearch {

    public static void main(String[] args) throws Exception {
        dieWithParent();
        Path home = Path.of(args[0]).toAbsolutePath();
        Settings base = Settings.builder().put("path.home", home.toString()).build();
        Environment environment = InternalSettingsPreparer.prepareEnvironment(
            base, Map.of(), home.resolve("config"), () -> "node");
        LogConfigurator.setNodeName(Node.NODE_NAME_SETTING.get(environment.settings()));
        LogConfigurator.configure(environment, true);

        PluginsLoader loader = PluginsLoader.createPluginsLoader(
            modulesIn(environment.modulesDir()), Set.of(), Map.of(), false);
        Node node = new Node(environment, loader);
        Runtime.getRuntime().addShutdownHook(new Thread(() -> close(node)));
        node.start();
        Thread.currentThread().join();
    }

    /**
     * The tests hold the other end of our standard input: it closes when they die, however that
     * happens, and no server may outlive them.
     */
    private static void dieWithParent() {
        Thread watch = new Thread(() -> {
            try {
                while (System.in.read() >= 0) { }
            } catch (IOException gone) {
                // The same as the end of the stream.
            }
            Runtime.getRuntime().halt(1);
        }, "parent-watch");
        watch.setDaemon(true);
        watch.start();
    }

    private static void close(Node node) {
        try {
            node.close();
        } catch (IOException e) {
            e.printStackTrace();
        }
    }

    /** The method takes one argument more since 9.5, so one source for both must ask at run time. */
    @SuppressWarnings("unchecked")
    private static Set<PluginBundle> modulesIn(Path folder) throws Exception {
        for (Method method : PluginsLoader.class.getMethods()) {
            if (method.getName().equals("loadModulesBundles")) {
                Object[] arguments = method.getParameterCount() == 1
                    ? new Object[] { folder }
                    : new Object[] { folder, true };
                return (Set<PluginBundle>) method.invoke(null, arguments);
            }
        }
        throw new NoSuchMethodException("PluginsLoader.loadModulesBundles");
    }
}
