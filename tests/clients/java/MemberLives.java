import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.serialization.StringDeserializer;

/**
 * Members of groups, each with a thread that polls, except while it processes a record.
 *
 * <p>A line of input is a JSON array of a command, a member's name and arguments. The result is a
 * line of JSON.
 */
public final class MemberLives {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final long TIMEOUT_S = 60;

    private final Map<String, Member> members = new HashMap<>();

    public static void main(String[] arguments) throws Exception {
        MemberLives lives = new MemberLives();
        PrintStream out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        BufferedReader in =
                new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            lives.step(JSON.readTree(line));
            out.println(JSON.writeValueAsString("done"));
        }
    }

    private void step(JsonNode line) throws Exception {
        String name = line.get(1).asText();
        switch (line.get(0).asText()) {
            case "open":
                Properties settings = new Properties();
                line.get(3).properties().forEach(each -> settings.put(each.getKey(), each.getValue().asText()));
                settings.put("client.id", name);
                Member member =
                        settings.remove("type") == null
                                ? new Consumer(line.get(2).asText(), settings)
                                : new Sharer(line.get(2).asText(), settings);
                members.put(name, member);
                member.start();
                break;
            case "await":
                await(members.get(name));
                break;
            case "work":
                members.get(name).isWorking = true;
                break;
            case "resume":
                members.get(name).isWorking = false;
                break;
            case "pause":
                members.get(name).isPausing = true;
                break;
            case "close":
                members.get(name).isClosing = true;
                members.get(name).join(TimeUnit.SECONDS.toMillis(TIMEOUT_S));
                break;
            default:
                throw new IllegalArgumentException(line.toString());
        }
    }

    private static void await(Member member) throws InterruptedException {
        long until = System.nanoTime() + TimeUnit.SECONDS.toNanos(TIMEOUT_S);
        while (!member.isAssigned) {
            Thread.sleep(10);
            if (System.nanoTime() > until) {
                throw new IllegalStateException(member.getName() + " got no partition");
            }
        }
    }

    private abstract static class Member extends Thread {
        volatile boolean isAssigned;
        volatile boolean isClosing;
        volatile boolean isPausing;
        volatile boolean isWorking;

        Member(Properties settings) {
            super(settings.getProperty("client.id"));
            setDaemon(true);
        }

        abstract void poll();

        abstract void leave();

        @Override
        public void run() {
            try {
                while (!isClosing) {
                    if (isWorking) {
                        Thread.sleep(10);
                    } else {
                        poll();
                    }
                }
                leave();
            } catch (KafkaException | InterruptedException end) {
                System.err.println(getName() + ": " + end);
                leave();
            }
        }
    }

    private static final class Consumer extends Member {
        private final KafkaConsumer<String, String> consumer;

        Consumer(String topic, Properties settings) {
            super(settings);
            consumer =
                    new KafkaConsumer<>(
                            settings, new StringDeserializer(), new StringDeserializer());
            consumer.subscribe(List.of(topic));
        }

        @Override
        void poll() {
            consumer.poll(Duration.ofMillis(50));
            isAssigned = !consumer.assignment().isEmpty();
            if (isPausing) {
                consumer.pause(consumer.assignment());
            }
        }

        @Override
        void leave() {
            consumer.close();
        }
    }

    private static final class Sharer extends Member {
        private final KafkaShareConsumer<String, String> consumer;

        Sharer(String topic, Properties settings) {
            super(settings);
            consumer =
                    new KafkaShareConsumer<>(
                            settings, new StringDeserializer(), new StringDeserializer());
            consumer.subscribe(List.of(topic));
        }

        @Override
        void poll() {
            consumer.poll(Duration.ofMillis(50));
            isAssigned = true;
        }

        @Override
        void leave() {
            consumer.close();
        }
    }
}
