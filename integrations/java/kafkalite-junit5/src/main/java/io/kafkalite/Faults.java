package io.kafkalite;

import java.util.List;
import java.util.Map;

/** Faults of the broker: errors, delays and lost connections for selected requests. */
public final class Faults {
    private final ControlClient control;

    Faults(ControlClient control) {
        this.control = control;
    }

    /** A fault, with the numbers of requests that it selected and those for which it fired. */
    public record FaultState(String id, int matches, int firings) {}

    /** All faults. */
    record FaultList(List<FaultState> faults) {}

    /** Adds a fault for the requests that arrive from now on. */
    public Fault add(FaultRule rule) {
        return new Fault(
                control,
                control.send(Route.ADD_FAULT, "", Map.of(), rule, FaultState.class).id());
    }

    /** Returns all faults in the order in which they were added. */
    public List<FaultState> list() {
        return control.send(Route.FAULTS, "", FaultList.class).faults();
    }

    /** Removes all faults. */
    public void clear() {
        control.send(Route.CLEAR_FAULTS, "", FaultList.class);
    }

    /** A fault that was added; closing it removes it. */
    public static final class Fault implements AutoCloseable {
        private final ControlClient control;
        private final String id;

        Fault(ControlClient control, String id) {
            this.control = control;
            this.id = id;
        }

        /** Returns the number of requests for which the fault has fired. */
        public int firings() {
            return state().firings();
        }

        /** Returns the number of requests that the fault has selected. */
        public int matches() {
            return state().matches();
        }

        @Override
        public void close() {
            control.send(Route.REMOVE_FAULT, id, FaultState.class);
        }

        private FaultState state() {
            return control.send(Route.FAULTS, "", FaultList.class).faults().stream()
                    .filter(fault -> fault.id().equals(id))
                    .findFirst()
                    .orElseThrow(() -> new IllegalStateException("fault " + id + " was removed"));
        }
    }
}
