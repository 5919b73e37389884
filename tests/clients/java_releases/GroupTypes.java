import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.GroupListing;

/** Lists groups of all types, as since Kafka 4.0. */
final class GroupTypes {
    private GroupTypes() {}

    /** Returns the type and the protocol type of a group. */
    static String of(Admin admin, String group) throws Exception {
        for (GroupListing each : admin.listGroups().all().get()) {
            if (each.groupId().equals(group)) {
                return each.type().orElseThrow() + "/" + each.protocol();
            }
        }
        return "absent";
    }
}
