package io.kafkalite.junit5;

import io.kafkalite.Clock;
import io.kafkalite.Explain;
import io.kafkalite.Faults;
import io.kafkalite.Groups;
import io.kafkalite.KafkaliteBroker;
import io.kafkalite.Nodes;
import io.kafkalite.Requests;
import io.kafkalite.Topics;
import io.kafkalite.Transactions;
import java.lang.reflect.AnnotatedElement;
import java.lang.reflect.Field;
import java.lang.reflect.Modifier;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.function.Function;
import org.junit.jupiter.api.extension.AfterAllCallback;
import org.junit.jupiter.api.extension.AfterEachCallback;
import org.junit.jupiter.api.extension.BeforeEachCallback;
import org.junit.jupiter.api.extension.ExtensionContext;
import org.junit.jupiter.api.extension.ExtensionContext.Namespace;
import org.junit.jupiter.api.extension.ParameterContext;
import org.junit.jupiter.api.extension.ParameterResolutionException;
import org.junit.jupiter.api.extension.ParameterResolver;
import org.junit.platform.commons.support.AnnotationSupport;
import org.junit.platform.commons.support.HierarchyTraversalMode;
import org.junit.platform.commons.support.ReflectionSupport;

/** Starts and stops the brokers of {@link Kafkalite}, and injects them. */
class KafkaliteExtension
        implements BeforeEachCallback, AfterEachCallback, AfterAllCallback, ParameterResolver {

    private static final Namespace NAMESPACE = Namespace.create(KafkaliteExtension.class);
    private static final Map<Class<?>, Function<KafkaliteBroker, Object>> INJECTED =
            Map.of(
                    KafkaliteBroker.class, broker -> broker,
                    Clock.class, KafkaliteBroker::clock,
                    Faults.class, KafkaliteBroker::faults,
                    Requests.class, KafkaliteBroker::requests,
                    Groups.class, KafkaliteBroker::groups,
                    Topics.class, KafkaliteBroker::topics,
                    Transactions.class, KafkaliteBroker::transactions,
                    Nodes.class, KafkaliteBroker::nodes,
                    Explain.class, KafkaliteBroker::explain);

    @Override
    public void beforeEach(ExtensionContext context) throws IllegalAccessException {
        KafkaliteBroker broker = brokerOf(context);
        for (Object instance : context.getRequiredTestInstances().getAllInstances()) {
            for (Field field :
                    ReflectionSupport.findFields(
                            instance.getClass(),
                            KafkaliteExtension::isInjected,
                            HierarchyTraversalMode.TOP_DOWN)) {
                field.setAccessible(true);
                field.set(instance, valueFor(field.getType(), broker));
            }
        }
    }

    @Override
    public void afterEach(ExtensionContext context) {
        ExtensionContext owner = ownerOf(context);
        KafkaliteBroker broker =
                owner.getStore(NAMESPACE).get(owner.getUniqueId(), KafkaliteBroker.class);
        if (broker != null && context.getExecutionException().isPresent()) {
            printReport(context, broker);
        }
        close(context);
    }

    @Override
    public void afterAll(ExtensionContext context) {
        close(context);
    }

    @Override
    public boolean supportsParameter(ParameterContext parameter, ExtensionContext context) {
        return isInjected(parameter.getParameter(), parameter.getParameter().getType());
    }

    @Override
    public Object resolveParameter(ParameterContext parameter, ExtensionContext context) {
        if (context.getTestMethod().isEmpty() && !annotationOf(context).perClass()) {
            throw new ParameterResolutionException(
                    "each test has a broker of its own: inject it into methods of tests, or"
                            + " use @Kafkalite(perClass = true)");
        }
        return valueFor(parameter.getParameter().getType(), brokerOf(context));
    }

    private static boolean isInjected(Field field) {
        int modifiers = field.getModifiers();
        return !Modifier.isStatic(modifiers)
                && !Modifier.isFinal(modifiers)
                && isInjected(field, field.getType());
    }

    private static boolean isInjected(AnnotatedElement element, Class<?> type) {
        return INJECTED.containsKey(type)
                || (type == String.class && element.isAnnotationPresent(BootstrapServers.class));
    }

    private static Object valueFor(Class<?> type, KafkaliteBroker broker) {
        return type == String.class
                ? broker.bootstrapServers()
                : INJECTED.get(type).apply(broker);
    }

    private static void printReport(ExtensionContext context, KafkaliteBroker broker) {
        System.err.println("What the broker saw in " + context.getDisplayName() + ":");
        try {
            System.err.println(broker.report());
        } catch (RuntimeException error) {
            System.err.println("the broker does not answer: " + error.getMessage());
        }
    }

    /** Returns the broker of a test, which is started when it is first needed. */
    private static KafkaliteBroker brokerOf(ExtensionContext context) {
        ExtensionContext owner = ownerOf(context);
        // A store also finds the values of the contexts above, so the key names the owner.
        return owner.getStore(NAMESPACE)
                .getOrComputeIfAbsent(
                        owner.getUniqueId(),
                        key -> start(annotationOf(context)),
                        KafkaliteBroker.class);
    }

    private static void close(ExtensionContext context) {
        KafkaliteBroker broker =
                context.getStore(NAMESPACE)
                        .remove(context.getUniqueId(), KafkaliteBroker.class);
        if (broker != null) {
            broker.close();
        }
    }

    /** Returns the context of the class that has the annotation with `perClass`, or of the test. */
    private static ExtensionContext ownerOf(ExtensionContext context) {
        ExtensionContext owner = context;
        while (annotationOn(owner).isEmpty() && owner.getParent().isPresent()) {
            owner = owner.getParent().get();
        }
        return annotationOn(owner).filter(Kafkalite::perClass).isPresent() ? owner : context;
    }

    private static Kafkalite annotationOf(ExtensionContext context) {
        for (Optional<ExtensionContext> each = Optional.of(context);
                each.isPresent();
                each = each.get().getParent()) {
            Optional<Kafkalite> found = annotationOn(each.get());
            if (found.isPresent()) {
                return found.get();
            }
        }
        throw new IllegalStateException("the test has no annotation @Kafkalite");
    }

    private static Optional<Kafkalite> annotationOn(ExtensionContext context) {
        return AnnotationSupport.findAnnotation(context.getElement(), Kafkalite.class);
    }

    private static KafkaliteBroker start(Kafkalite settings) {
        List<String> options = new ArrayList<>();
        options.addAll(List.of("--brokers", String.valueOf(settings.brokers())));
        options.addAll(List.of("--clock", settings.clock()));
        options.addAll(List.of("--request-log", "1000")); // for the report of a failed test
        for (String topic : settings.topics()) {
            options.addAll(List.of("--topic", topic));
        }
        for (String config : settings.config()) {
            options.addAll(List.of("--config", config));
        }
        if (!settings.asVersion().isEmpty()) {
            options.addAll(List.of("--as-version", settings.asVersion()));
        }
        options.addAll(List.of(settings.options()));
        String[] words = options.toArray(String[]::new);
        if (!settings.image().isEmpty()) {
            return KafkaliteBroker.startImage(settings.image(), words);
        }
        if (settings.command().length > 0) {
            return KafkaliteBroker.startCommand(List.of(settings.command()), words);
        }
        return KafkaliteBroker.start(words);
    }
}
