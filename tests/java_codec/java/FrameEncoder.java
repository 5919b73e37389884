import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.invoke.MethodHandle;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.MethodType;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.Map;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.ObjectSerializationCache;

/**
 * Encodes messages with Kafka's generated classes.
 *
 * <p>An input line has class, version, the message as JSON, and a frame in hex, separated by tabs. An
 * output line has the frame encoded from the JSON, and the frame encoded from the decoded input
 * frame. It is "-" without JSON, and "!" with the exception after an error.
 */
public final class FrameEncoder {
    private static final HexFormat HEX = HexFormat.of();
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final Map<String, Class<? extends Message>> CLASSES = new HashMap<>();
    private static final Map<String, MethodHandle> READERS = new HashMap<>();

    private FrameEncoder() {
    }

    public static void main(String[] args) throws Exception {
        var in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        var out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] parts = line.split("\t", -1);
            short version = Short.parseShort(parts[1]);
            out.print(fromJson(parts[0], version, parts[2]));
            out.print('\t');
            out.println(fromFrame(parts[0], version, parts[3]));
        }
        out.flush();
    }

    private static String fromJson(String name, short version, String json) {
        if (json.equals("-")) {
            return "-";
        }
        try {
            return frame((Message) reader(name).invoke(JSON.readTree(json), version), version);
        } catch (Throwable error) {
            return "!" + error;
        }
    }

    private static String fromFrame(String name, short version, String hex) {
        try {
            var buffer = new ByteBufferAccessor(ByteBuffer.wrap(HEX.parseHex(hex)));
            Message message = messageClass(name).getDeclaredConstructor().newInstance();
            message.read(buffer, version);
            int remaining = buffer.buffer().remaining();
            return remaining == 0 ? frame(message, version) : "!" + remaining + " bytes left";
        } catch (Exception error) {
            return "!" + error;
        }
    }

    private static String frame(Message message, short version) {
        var cache = new ObjectSerializationCache();
        var buffer = ByteBuffer.allocate(message.size(cache, version));
        message.write(new ByteBufferAccessor(buffer), cache, version);
        return HEX.formatHex(buffer.array(), 0, buffer.position());
    }

    private static Class<? extends Message> messageClass(String name) throws Exception {
        Class<? extends Message> found = CLASSES.get(name);
        if (found == null) {
            found = Class.forName(name).asSubclass(Message.class);
            CLASSES.put(name, found);
        }
        return found;
    }

    private static MethodHandle reader(String name) throws Exception {
        MethodHandle found = READERS.get(name);
        if (found == null) {
            var type = MethodType.methodType(messageClass(name), JsonNode.class, short.class);
            var converter = Class.forName(name + "JsonConverter");
            found = MethodHandles.lookup().findStatic(converter, "read", type)
                .asType(MethodType.methodType(Message.class, JsonNode.class, short.class));
            READERS.put(name, found);
        }
        return found;
    }
}
