import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.AlterConfigOp.OpType;
import org.apache.kafka.clients.admin.AlterConfigsOptions;
import org.apache.kafka.clients.admin.Config;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.DescribeConfigsOptions;
import org.apache.kafka.clients.admin.ListConfigResourcesOptions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.common.config.ConfigResource;

/** Calls about the configuration of topics, brokers and groups. */
final class ConfigCalls {
    private static final ConfigResource TOPIC =
            new ConfigResource(ConfigResource.Type.TOPIC, "admin-tuned");
    private static final ConfigResource BROKER =
            new ConfigResource(ConfigResource.Type.BROKER, "1");
    private static final ConfigResource BROKERS =
            new ConfigResource(ConfigResource.Type.BROKER, "");
    private static final ConfigResource GROUP =
            new ConfigResource(ConfigResource.Type.GROUP, "admin-tuned-group");
    private static final ConfigResource LOGGERS =
            new ConfigResource(ConfigResource.Type.BROKER_LOGGER, "1");

    private final AdminSweep sweep;
    private final Admin admin;

    ConfigCalls(AdminSweep sweep) {
        this.sweep = sweep;
        this.admin = sweep.admin;
    }

    void run() throws Exception {
        sweep.call("createTopics tuned", () -> AdminSweep.each(admin.createTopics(
                List.of(new NewTopic(TOPIC.name(), 1, (short) 1))).values()));
        sweep.awaitPartitions(TOPIC.name(), 1);
        describe("describeConfigs broker", BROKER);
        describe("describeConfigs topic", TOPIC);
        describe("describeConfigs group", GROUP);
        describe("describeConfigs unknown topic",
                new ConfigResource(ConfigResource.Type.TOPIC, "admin-missing"));
        sweep.call("describeConfigs loggers", () -> AdminSweep.get(
                admin.describeConfigs(List.of(LOGGERS)).all()).get(LOGGERS).get("root") != null);

        alter("set", TOPIC, op("retention.ms", "5000", OpType.SET),
                op("cleanup.policy", "compact", OpType.APPEND));
        await(TOPIC, "cleanup.policy", "delete,compact");
        describe("describeConfigs topic set", TOPIC);
        alter("subtract and delete", TOPIC, op("cleanup.policy", "delete", OpType.SUBTRACT),
                op("retention.ms", "", OpType.DELETE));
        await(TOPIC, "cleanup.policy", "compact");
        describe("describeConfigs topic subtracted", TOPIC);
        alter("group", GROUP, op("consumer.session.timeout.ms", "46000", OpType.SET));
        await(GROUP, "consumer.session.timeout.ms", "46000");
        describe("describeConfigs group set", GROUP);
        alter("broker", BROKER, op("log.retention.ms", "7200000", OpType.SET));
        alter("brokers", BROKERS, op("log.retention.ms", "3600000", OpType.SET));
        await(BROKERS, "log.retention.ms", "3600000");
        await(BROKER, "log.retention.ms", "7200000");
        await(TOPIC, "retention.ms", "7200000");
        describe("describeConfigs brokers set", BROKERS);
        sweep.call("describeConfigs broker set", () ->
                AdminSweep.describe(config(BROKER)).get("log.retention.ms"));
        sweep.call("describeConfigs topic by broker", () ->
                AdminSweep.describe(config(TOPIC)).get("retention.ms"));
        alter("broker deleted", BROKER, op("log.retention.ms", "", OpType.DELETE));
        alter("brokers deleted", BROKERS, op("log.retention.ms", "", OpType.DELETE));

        alter("unknown key", TOPIC, op("no.such", "1", OpType.SET));
        alter("bad value", TOPIC, op("retention.ms", "never", OpType.SET));
        alter("append to a number", TOPIC, op("retention.ms", "1", OpType.APPEND));
        alter("unknown topic", new ConfigResource(ConfigResource.Type.TOPIC, "admin-missing"),
                op("retention.ms", "1", OpType.SET));
        alter("read-only broker key", BROKER, op("node.id", "7", OpType.SET));
        alter("bad group value", GROUP, op("consumer.session.timeout.ms", "1", OpType.SET));
        await(TOPIC, "retention.ms", "604800000");
        sweep.call("incrementalAlterConfigs validateOnly", () -> AdminSweep.get(
                admin.incrementalAlterConfigs(
                        Map.of(TOPIC, List.of(op("retention.ms", "1", OpType.SET))),
                        new AlterConfigsOptions().validateOnly(true)).all()));
        sweep.call("describeConfigs topic validated", () ->
                AdminSweep.describe(config(TOPIC)).get("retention.ms"));

        sweep.call("listConfigResources", () -> listed(
                Set.of(ConfigResource.Type.TOPIC, ConfigResource.Type.GROUP)));
        sweep.call("listConfigResources brokers", () ->
                listed(Set.of(ConfigResource.Type.BROKER)));
        sweep.call("listConfigResources all", () -> listed(Set.of()));
    }

    private Object listed(Set<ConfigResource.Type> types) throws Exception {
        return AdminSweep.names(AdminSweep.get(
                admin.listConfigResources(types, new ListConfigResourcesOptions()).all()).stream()
                .filter(found -> !found.name().startsWith("__"))
                .filter(found -> found.name().startsWith("admin") || found.name().equals("1"))
                .toList());
    }

    private static AlterConfigOp op(String name, String value, OpType type) {
        return new AlterConfigOp(new ConfigEntry(name, value), type);
    }

    private void alter(String name, ConfigResource resource, AlterConfigOp... operations) {
        Collection<AlterConfigOp> asked = List.of(operations);
        sweep.call("incrementalAlterConfigs " + name, () -> AdminSweep.each(
                admin.incrementalAlterConfigs(Map.of(resource, asked)).values()));
    }

    private void describe(String name, ConfigResource resource) {
        sweep.call(name, () -> AdminSweep.describe(config(resource)));
    }

    private void await(ConfigResource resource, String key, String value) throws Exception {
        AdminSweep.await(() -> {
            ConfigEntry entry = config(resource).get(key);
            return entry != null && value.equals(entry.value());
        });
    }

    private Config config(ConfigResource resource) throws Exception {
        return AdminSweep.get(admin.describeConfigs(List.of(resource), new DescribeConfigsOptions()
                .includeSynonyms(true).includeDocumentation(true)).all()).get(resource);
    }
}
