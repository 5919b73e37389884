import org.apache.kafka.clients.admin.Admin;

/** Lists consumer groups as before Kafka 4.0. */
final class GroupNames {
    private GroupNames() {}

    /** Returns whether a group is listed. */
    @SuppressWarnings("deprecation")
    static String of(Admin admin, String group) throws Exception {
        return admin.listConsumerGroups().all().get().stream()
                        .anyMatch(each -> each.groupId().equals(group))
                ? "listed"
                : "absent";
    }
}
