import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.DescribeStreamsGroupsOptions;
import org.apache.kafka.clients.admin.StreamsGroupDescription;
import org.apache.kafka.clients.admin.StreamsGroupMemberAssignment;
import org.apache.kafka.clients.admin.StreamsGroupMemberDescription;
import org.apache.kafka.clients.admin.StreamsGroupSubtopologyDescription;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.state.KeyValueStore;

/**
 * Counts words with Kafka Streams; commands are lines of text.
 *
 * <p>Arguments: bootstrap address, application id, input topic, output topic, state directory,
 * port of its advertised endpoint, group protocol, processing guarantee, settings as {@code
 * key=value}. {@code describe} prints the group as Admin describes it, {@code close} leaves the
 * group.
 */
public final class WordCount {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final Duration TIMEOUT = Duration.ofSeconds(30);

    private WordCount() {}

    public static void main(String[] arguments) throws Exception {
        String bootstrap = arguments[0];
        String application = arguments[1];
        Properties config = new Properties();
        config.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, bootstrap);
        config.put(StreamsConfig.APPLICATION_ID_CONFIG, application);
        config.put(StreamsConfig.GROUP_PROTOCOL_CONFIG, arguments[6]);
        config.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, arguments[7]);
        config.put(StreamsConfig.STATE_DIR_CONFIG, arguments[4]);
        config.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, "100");
        config.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, "0");
        config.put(StreamsConfig.APPLICATION_SERVER_CONFIG, "localhost:" + arguments[5]);
        config.put(StreamsConfig.consumerPrefix("auto.offset.reset"), "earliest");
        for (String setting : Arrays.asList(arguments).subList(8, arguments.length)) {
            String[] keyAndValue = setting.split("=", 2);
            config.put(keyAndValue[0], keyAndValue[1]);
        }
        if (arguments[6].equals("classic")) {
            // So that a killed instance is detected soon.
            config.put(StreamsConfig.consumerPrefix("session.timeout.ms"), "2000");
            config.put(StreamsConfig.consumerPrefix("heartbeat.interval.ms"), "200");
        }
        PrintStream output = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        KafkaStreams streams = new KafkaStreams(topology(arguments[2], arguments[3]).build(), config);
        streams.setStateListener((now, before) -> output.println("state " + now));
        streams.start();
        BufferedReader input =
                new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            if (line.equals("close")) {
                break;
            }
            output.println("group " + JSON.writeValueAsString(described(bootstrap, application)));
        }
        streams.close(TIMEOUT);
        output.println("closed");
    }

    private static StreamsBuilder topology(String from, String to) {
        StreamsBuilder builder = new StreamsBuilder();
        builder.stream(from, Consumed.with(Serdes.String(), Serdes.String()))
                .flatMapValues(line -> List.of(line.split(" ")))
                .groupBy((key, word) -> word, Grouped.with("words", Serdes.String(), Serdes.String()))
                .count(Materialized.<String, Long, KeyValueStore<Bytes, byte[]>>as("counts"))
                .toStream()
                .mapValues(count -> count.toString())
                .to(to, Produced.with(Serdes.String(), Serdes.String()));
        return builder;
    }

    private static ObjectNode described(String bootstrap, String application)
            throws IOException, InterruptedException, ExecutionException, TimeoutException {
        ObjectNode told = JSON.createObjectNode();
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", bootstrap))) {
            StreamsGroupDescription group =
                    admin.describeStreamsGroups(
                                    List.of(application),
                                    new DescribeStreamsGroupsOptions()
                                            .includeTopologyDescription(true))
                            .describedGroups()
                            .get(application)
                            .get(TIMEOUT.toSeconds(), TimeUnit.SECONDS);
            told.put("state", group.groupState().toString());
            told.put("assignor", group.assignorName().orElse(null));
            told.put("description", group.topologyDescriptionStatus().toString());
            ArrayNode nodes = told.putArray("nodes");
            group.topologyDescription()
                    .ifPresent(
                            description ->
                                    description.subtopologies().stream()
                                            .flatMap(each -> each.nodes().stream())
                                            .forEach(node -> nodes.add(node.name())));
            ArrayNode subtopologies = told.putArray("subtopologies");
            for (StreamsGroupSubtopologyDescription each : group.subtopologies()) {
                ObjectNode row = subtopologies.addObject();
                row.put("id", each.subtopologyId());
                row.putPOJO("sources", each.sourceTopics());
                row.putPOJO("sinks", each.repartitionSinkTopics());
                row.putPOJO("repartitions", each.repartitionSourceTopics().keySet());
                row.putPOJO("changelogs", each.stateChangelogTopics().keySet());
            }
            ObjectNode members = told.putObject("members");
            for (StreamsGroupMemberDescription member : group.members()) {
                ObjectNode row = members.putObject(member.memberId());
                row.putPOJO("tags", member.clientTags());
                list(row.putArray("active"), member.assignment().activeTasks());
                list(row.putArray("standby"), member.assignment().standbyTasks());
            }
        }
        return told;
    }

    private static void list(ArrayNode tasks, List<StreamsGroupMemberAssignment.TaskIds> all) {
        for (StreamsGroupMemberAssignment.TaskIds ids : all) {
            for (int partition : ids.partitions()) {
                tasks.add(ids.subtopologyId() + "_" + partition);
            }
        }
    }
}
