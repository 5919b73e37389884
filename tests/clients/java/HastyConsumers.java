import com.fasterxml.jackson.databind.ObjectMapper;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ConsumerGroupDescription;
import org.apache.kafka.clients.admin.MemberDescription;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.serialization.StringDeserializer;

/**
 * Consumers that close before they can receive the response to their join, and one that joins twice.
 *
 * <p>Arguments: bootstrap, topic, group, number of consumers. Prints one JSON object: the members of
 * the group after all these consumers are closed, and the member ids of the other consumer in its
 * two subscriptions.
 */
public final class HastyConsumers {
    private static final int TIMEOUT_S = 30;

    private HastyConsumers() {}

    public static void main(String[] arguments) throws Exception {
        String bootstrap = arguments[0];
        String topic = arguments[1];
        String group = arguments[2];
        try (Admin admin = admin(bootstrap);
                KafkaConsumer<String, String> first = consumer(bootstrap, group)) {
            List<String> ids = new ArrayList<>();
            for (int time = 0; time < 2; time++) {
                first.subscribe(List.of(topic));
                waitForAssignment(first);
                ids.addAll(members(admin, group));
                first.unsubscribe();
            }
            for (int number = Integer.parseInt(arguments[3]); number > 0; number--) {
                try (KafkaConsumer<String, String> hasty = consumer(bootstrap, group)) {
                    hasty.subscribe(List.of(topic));
                    hasty.poll(Duration.ofMillis(number % 4));
                }
            }
            Map<String, Object> found = new TreeMap<>();
            found.put("ids", ids);
            found.put("left", members(admin, group));
            System.out.println(new ObjectMapper().writeValueAsString(found));
        }
    }

    private static Admin admin(String bootstrap) {
        Properties config = new Properties();
        config.put("bootstrap.servers", bootstrap);
        return Admin.create(config);
    }

    private static KafkaConsumer<String, String> consumer(String bootstrap, String group) {
        Properties config = new Properties();
        config.put("bootstrap.servers", bootstrap);
        config.put("group.id", group);
        config.put("group.protocol", "consumer");
        return new KafkaConsumer<>(config, new StringDeserializer(), new StringDeserializer());
    }

    private static void waitForAssignment(KafkaConsumer<String, String> consumer) {
        long until = System.nanoTime() + TimeUnit.SECONDS.toNanos(TIMEOUT_S);
        while (consumer.assignment().isEmpty()) {
            consumer.poll(Duration.ofMillis(20));
            if (System.nanoTime() > until) {
                throw new IllegalStateException("no partition was given");
            }
        }
    }

    private static List<String> members(Admin admin, String group) throws Exception {
        ConsumerGroupDescription described =
                admin.describeConsumerGroups(List.of(group))
                        .describedGroups()
                        .get(group)
                        .get(TIMEOUT_S, TimeUnit.SECONDS);
        return described.members().stream().map(MemberDescription::consumerId).sorted().toList();
    }
}
