import java.lang.reflect.Constructor;
import java.lang.reflect.Field;
import java.lang.reflect.InvocationHandler;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.lang.reflect.Proxy;
import java.util.Arrays;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.AbstractOptions;
import org.apache.kafka.clients.admin.Admin;

/**
 * Records which methods of Admin a cell calls, and which options have values other than the default.
 *
 * <p>An option is named as the field of its options class.
 */
final class Recorder {
    private Map<String, Set<String>> calls = new TreeMap<>();

    /** Every public method of Admin, and the options of its options class. */
    static Map<String, Set<String>> surface() {
        Map<String, Set<String>> found = new TreeMap<>();
        for (Method method : Admin.class.getDeclaredMethods()) {
            if (!Modifier.isPublic(method.getModifiers()) || method.isSynthetic()) {
                continue;
            }
            Set<String> options = new TreeSet<>();
            for (Class<?> type : method.getParameterTypes()) {
                if (AbstractOptions.class.isAssignableFrom(type)) {
                    fields(type).keySet().forEach(options::add);
                }
            }
            found.put(signature(method), options);
        }
        return found;
    }

    /** Return a client that passes every call on. */
    Admin recording(Admin admin) {
        InvocationHandler handler = (proxy, method, arguments) -> {
            Set<String> options =
                    calls.computeIfAbsent(signature(method), name -> new TreeSet<>());
            for (Object argument : arguments == null ? new Object[0] : arguments) {
                if (argument instanceof AbstractOptions<?> given) {
                    options.addAll(changed(given));
                }
            }
            try {
                return method.invoke(admin, arguments);
            } catch (InvocationTargetException failure) {
                throw failure.getCause();
            }
        };
        return (Admin) Proxy.newProxyInstance(
                Admin.class.getClassLoader(), new Class<?>[] {Admin.class}, handler);
    }

    /** Record a call of a static method, which no proxy sees. */
    void record(String signature) {
        calls.put(signature, Set.of());
    }

    /** Return the calls since the last call of this method. */
    Map<String, Set<String>> take() {
        Map<String, Set<String>> taken = calls;
        calls = new TreeMap<>();
        return taken;
    }

    private static String signature(Method method) {
        return method.getName() + Arrays.stream(method.getParameterTypes())
                .map(Class::getSimpleName)
                .collect(Collectors.joining(", ", "(", ")"));
    }

    private static Set<String> changed(AbstractOptions<?> given) throws Exception {
        Constructor<?> constructor = given.getClass().getDeclaredConstructor();
        Object fresh = constructor.newInstance();
        Set<String> found = new TreeSet<>();
        for (Map.Entry<String, Field> entry : fields(given.getClass()).entrySet()) {
            Field field = entry.getValue();
            field.setAccessible(true);
            if (!Objects.equals(field.get(given), field.get(fresh))) {
                found.add(entry.getKey());
            }
        }
        return found;
    }

    private static Map<String, Field> fields(Class<?> type) {
        Map<String, Field> found = new TreeMap<>();
        for (Class<?> each = type; each != Object.class; each = each.getSuperclass()) {
            for (Field field : each.getDeclaredFields()) {
                if (!Modifier.isStatic(field.getModifiers())) {
                    found.put(field.getName(), field);
                }
            }
        }
        return found;
    }
}
