package io.kafkalite;

import com.github.dockerjava.api.command.InspectContainerResponse;
import java.util.ArrayList;
import java.util.List;
import java.util.UUID;
import org.testcontainers.containers.GenericContainer;
import org.testcontainers.containers.wait.strategy.Wait;
import org.testcontainers.images.builder.Transferable;
import org.testcontainers.utility.DockerImageName;

/**
 * A container of Testcontainers with a broker; Spring Boot has {@code @ServiceConnection} for it.
 *
 * <p>Containers of the same network reach the broker at their host name for it, port 29092.
 */
public class KafkaliteContainer extends GenericContainer<KafkaliteContainer> {
    private static final int PORT = 9092;
    private static final int CONTROL_PORT = 9097;

    /** The port on the host is known after the start of the container; the broker starts with it. */
    private static final String START =
            """
            while [ ! -s /tmp/address ]; do sleep 0.05; done
            export KAFKALITE_ADVERTISE="OUTSIDE://$(cat /tmp/address),INSIDE://$(hostname):29092"
            exec kafkalite-entrypoint
            """;

    private final List<String> topics = new ArrayList<>();
    private final String token = UUID.randomUUID().toString();

    /** Makes a container of an image, such as {@code kafkalite}. */
    public KafkaliteContainer(String image) {
        super(DockerImageName.parse(image));
        withExposedPorts(PORT, CONTROL_PORT);
        withEnv("KAFKALITE_CONTROL", "0.0.0.0:" + CONTROL_PORT);
        withEnv("KAFKALITE_CONTROL_TOKEN", token);
        withCommand("sh", "-c", START);
        waitingFor(Wait.forLogMessage(".*kafkalite is ready.*", 1));
    }

    /** Creates a topic at the start of the broker. */
    public KafkaliteContainer withTopic(String name, int partitions) {
        topics.add(name + ":" + partitions);
        return withEnv("KAFKALITE_TOPICS", String.join(",", topics));
    }

    /** Returns the address for clients on the host. */
    public String getBootstrapServers() {
        return getHost() + ":" + getMappedPort(PORT);
    }

    /** Returns the clients of the control API; the container ends by its own {@code stop}. */
    public KafkaliteBroker broker() {
        String url = "http://" + getHost() + ":" + getMappedPort(CONTROL_PORT);
        return KafkaliteBroker.connect(getBootstrapServers(), url, token);
    }

    @Override
    protected void containerIsStarting(InspectContainerResponse container) {
        copyFileToContainer(Transferable.of(getBootstrapServers()), "/tmp/address");
    }
}
