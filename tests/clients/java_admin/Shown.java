import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.util.Arrays;
import java.util.Collection;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.OptionalLong;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.common.KafkaFuture;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.Uuid;

/**
 * Converts results of Admin to maps, lists and plain values, with the values of all getters.
 *
 * <p>Ids are replaced by their presence. A future is replaced by its result or its exception.
 */
final class Shown {
    private static final Set<String> NO_GETTERS =
            Set.of("toString", "hashCode", "getClass", "notify", "notifyAll", "wait", "clone");

    private Shown() {}

    static Object of(Object value) throws Exception {
        if (value instanceof KafkaFuture<?> future) {
            return outcome(future);
        }
        if (value instanceof Optional<?> optional) {
            return optional.isPresent() ? of(optional.get()) : "none";
        }
        if (value instanceof OptionalInt optional) {
            return optional.isPresent() ? optional.getAsInt() : "none";
        }
        if (value instanceof OptionalLong optional) {
            return optional.isPresent() ? optional.getAsLong() : "none";
        }
        if (value instanceof Map<?, ?> map) {
            Map<String, Object> found = new TreeMap<>();
            for (Map.Entry<?, ?> entry : map.entrySet()) {
                found.put(String.valueOf(entry.getKey()), of(entry.getValue()));
            }
            return found;
        }
        if (value instanceof Collection<?> collection) {
            return listed(collection);
        }
        if (value instanceof Throwable failure) {
            return error(failure);
        }
        if (value instanceof Uuid id) {
            return id.equals(Uuid.ZERO_UUID) ? "no id" : "id";
        }
        if (value instanceof byte[] bytes) {
            return bytes.length + " bytes";
        }
        return value == null || !hasGetters(value) ? plain(value) : getters(value);
    }

    static Map<String, Object> error(Throwable failure) {
        Throwable cause = failure instanceof ExecutionException ? failure.getCause() : failure;
        return Map.of("error", cause.getClass().getSimpleName(),
                "error_message", String.valueOf(cause.getMessage()));
    }

    private static Object outcome(KafkaFuture<?> future) throws Exception {
        try {
            return of(future.get(AdminSweep.TIMEOUT_S, TimeUnit.SECONDS));
        } catch (ExecutionException failure) {
            return error(failure);
        }
    }

    private static Object listed(Collection<?> values) throws Exception {
        List<Object> found = new java.util.ArrayList<>();
        for (Object value : values) {
            found.add(of(value));
        }
        found.sort(Comparator.comparing(String::valueOf));
        return found;
    }

    private static Object plain(Object value) {
        boolean isPlain = value instanceof Number || value instanceof Boolean;
        return value == null || isPlain ? value : value.toString();
    }

    private static boolean hasGetters(Object value) {
        boolean isOfAdmin = value.getClass().getName().startsWith("org.apache.kafka.clients.admin.");
        return value instanceof Node || isOfAdmin && !(value instanceof Enum);
    }

    /** The aggregate of all futures fails if one of them does, so it is used only alone. */
    private static Object getters(Object value) throws Exception {
        List<Method> methods = Arrays.stream(value.getClass().getMethods())
                .filter(method -> method.getParameterCount() == 0
                        && !Modifier.isStatic(method.getModifiers())
                        && method.getReturnType() != void.class
                        && !method.isAnnotationPresent(Deprecated.class)
                        && !NO_GETTERS.contains(method.getName()))
                .toList();
        boolean hasOthers = methods.stream().anyMatch(method -> !isAggregate(method));
        Map<String, Object> found = new TreeMap<>();
        for (Method method : methods) {
            if (hasOthers && isAggregate(method)) {
                continue;
            }
            method.setAccessible(true);
            try {
                found.put(method.getName(), of(method.invoke(value)));
            } catch (InvocationTargetException failure) {
                found.put(method.getName(), error(failure.getCause()));
            }
        }
        return found;
    }

    private static boolean isAggregate(Method method) {
        return method.getName().startsWith("all");
    }
}
