package org.opensearch.node;

import java.io.IOException;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import org.opensearch.Version;
import org.opensearch.common.logging.LogConfigurator;
import org.opensearch.common.settings.Settings;
import org.opensearch.env.Environment;
import org.opensearch.plugins.PluginInfo;

/**
 * One real OpenSearch node in this process: StartOpenSearch HOME.
 *
 * <p>All settings stand in HOME/config/opensearch.yml. It lives in OpenSearch's own package because
 * the constructor that takes modules from the class path is not public.
 */
public final class StartOpenSearch {

    /**
     * The modules of a full distribution that a client of documents and searches may meet. Those
     * that are not on the class path are left out.
     */
    private static final List<String> MODULES = List.of(
        "org.opensearch.transport.Netty4ModulePlugin",
        "org.opensearch.analysis.common.CommonAnalysisModulePlugin",
        "org.opensearch.index.mapper.MapperExtrasModulePlugin",
        "org.opensearch.index.reindex.ReindexModulePlugin",
        "org.opensearch.painless.PainlessModulePlugin",
        "org.opensearch.ingest.common.IngestCommonModulePlugin",
        "org.opensearch.security.OpenSearchSecurityPlugin");

    public static void main(String[] args) throws Exception {
        dieWithParent();
        Path home = Path.of(args[0]).toAbsolutePath();
        Settings base = Settings.builder().put("path.home", home.toString()).build();
        Environment environment = InternalSettingsPreparer.prepareEnvironment(
            base, Map.of(), home.resolve("config"), () -> "node");
        LogConfigurator.setNodeName(Node.NODE_NAME_SETTING.get(environment.settings()));
        LogConfigurator.configure(environment);

        List<PluginInfo> modules = MODULES.stream()
            .filter(StartOpenSearch::isThere).map(StartOpenSearch::module).toList();
        Node node = new Node(environment, modules, true) { };
        Runtime.getRuntime().addShutdownHook(new Thread(() -> close(node)));
        node.start();
        Thread.currentThread().join();
    }

    private static boolean isThere(String className) {
        return StartOpenSearch.class.getResource("/" + className.replace('.', '/') + ".class")
            != null;
    }

    private static PluginInfo module(String className) {
        return new PluginInfo(
            className, "module on the class path", "NA", Version.CURRENT, "21", className, null,
            List.of(), false);
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
}
