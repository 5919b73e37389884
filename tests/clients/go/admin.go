// Calls every method of kadm's client, and prints a sweep; ../admin.py describes it.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"reflect"
	"sort"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl/plain"
)

const (
	adminTimeout  = 30 * time.Second
	adminPollTime = 50 * time.Millisecond
	adminTopic    = "kadm-topic"
	adminGroup    = "kadm-group"
	adminShare    = "kadm-share"
	adminUser     = "kadm-user"
	adminTxn      = "kadm-open"
	adminMissing  = "kadm-missing"
)

type cell struct {
	Calls  map[string][]string `json:"calls"`
	Answer any                 `json:"answer"`
}

// A sweep stores its cells in the order of the calls, which a map of JSON would lose.
type adminSweep struct {
	client *kgo.Client
	admin  *kadm.Client
	names  []string
	cells  map[string]cell
}

var (
	errorType   = reflect.TypeFor[error]()
	contextType = reflect.TypeFor[context.Context]()
)

func adminContext() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), adminTimeout)
}

// Call a method by its name, and store what it returns.
func (s *adminSweep) call(name string, method string, arguments ...any) {
	s.callOf(s.admin, name, method, arguments...)
}

func (s *adminSweep) callOf(admin *kadm.Client, name string, method string, arguments ...any) {
	s.store(name, method, answerOf(invoke(admin, method, arguments...)))
}

// Store the answers for the named keys only: a list has entries of the cluster's own.
func (s *adminSweep) callFor(name string, method string, keys []string, arguments ...any) {
	answer := answerOf(invoke(s.admin, method, arguments...))
	if found, isMap := answer.(map[string]any); isMap && found["error"] == nil {
		ours := map[string]any{}
		for _, key := range keys {
			if value, has := found[key]; has {
				ours[key] = value
			}
		}
		answer = ours
	}
	s.store(name, method, answer)
}

func (s *adminSweep) store(name string, method string, answer any) {
	s.names = append(s.names, name)
	s.cells[name] = cell{map[string][]string{method: {}}, answer}
}

func invoke(admin *kadm.Client, method string, arguments ...any) []reflect.Value {
	function := reflect.ValueOf(admin).MethodByName(method)
	kind := function.Type()
	values := []reflect.Value{}
	ctx, cancel := adminContext()
	defer cancel()
	if kind.NumIn() > 0 && kind.In(0) == contextType {
		values = append(values, reflect.ValueOf(ctx))
	}
	for _, argument := range arguments {
		if argument == nil {
			values = append(values, reflect.Zero(kind.In(len(values))))
		} else {
			values = append(values, reflect.ValueOf(argument))
		}
	}
	return function.Call(values)
}

// Return the error if there is one, otherwise the first result.
func answerOf(results []reflect.Value) any {
	for _, result := range results {
		if result.Type() == errorType && !result.IsNil() {
			return failureOf(result.Interface().(error))
		}
	}
	if len(results) == 0 || results[0].Type() == errorType {
		return "done"
	}
	return shown(results[0])
}

func failureOf(err error) map[string]any {
	text := err.Error()
	var known *kerr.Error
	if errors.As(err, &known) {
		text = known.Message
	}
	return map[string]any{"error": text}
}

// Convert a value to maps, lists and plain values, with all exported fields.
func shown(value reflect.Value) any {
	if value.CanInterface() {
		switch given := value.Interface().(type) {
		case error:
			if value.Kind() == reflect.Pointer && value.IsNil() {
				return nil
			}
			return failureOf(given)
		case time.Time:
			return !given.IsZero()
		case kadm.TopicID:
			return "id"
		case fmt.Stringer:
			if value.Kind() != reflect.Struct && value.Kind() != reflect.Pointer {
				return given.String()
			}
		}
	}
	switch value.Kind() {
	case reflect.Pointer, reflect.Interface:
		if value.IsNil() {
			return nil
		}
		return shown(value.Elem())
	case reflect.Struct:
		return fieldsOf(value)
	case reflect.Map:
		found := map[string]any{}
		for _, key := range value.MapKeys() {
			found[keyOf(key)] = shown(value.MapIndex(key))
		}
		return found
	case reflect.Slice, reflect.Array:
		if value.Type().Elem().Kind() == reflect.Uint8 {
			return fmt.Sprintf("%d bytes", value.Len())
		}
		return listOf(value)
	}
	return value.Interface()
}

func keyOf(key reflect.Value) string {
	if _, isID := key.Interface().(kadm.TopicID); isID {
		return "id"
	}
	return fmt.Sprint(key.Interface())
}

func fieldsOf(value reflect.Value) map[string]any {
	found := map[string]any{}
	for index := range value.NumField() {
		field := value.Type().Field(index)
		if field.IsExported() && field.Name != "UnknownTags" {
			found[field.Name] = shown(value.Field(index))
		}
	}
	return found
}

func listOf(value reflect.Value) []any {
	rows := make([]any, value.Len())
	for index := range rows {
		rows[index] = shown(value.Index(index))
	}
	sort.Slice(rows, func(left, right int) bool { return jsonOf(rows[left]) < jsonOf(rows[right]) })
	return rows
}

func jsonOf(value any) string {
	text, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	return string(text)
}

// Print the sweep; the methods have no options, only parameters.
func (s *adminSweep) print() {
	surface := map[string][]string{}
	kind := reflect.TypeFor[*kadm.Client]()
	for index := range kind.NumMethod() {
		surface[kind.Method(index).Name] = []string{}
	}
	rows := make([]string, len(s.names))
	for index, name := range s.names {
		rows[index] = jsonOf(name) + ":" + jsonOf(s.cells[name])
	}
	fmt.Printf(`{"surface":%s,"cells":{%s}}`+"\n", jsonOf(surface), strings.Join(rows, ","))
}

func awaitCondition(what string, isSo func(context.Context) bool) {
	ctx, cancel := adminContext()
	defer cancel()
	for !isSo(ctx) {
		if ctx.Err() != nil {
			fmt.Fprintln(os.Stderr, "still not so:", what)
			os.Exit(1)
		}
		time.Sleep(adminPollTime)
	}
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func set(topic string, partitions ...int32) kadm.TopicsSet {
	found := kadm.TopicsSet{}
	found.Add(topic, partitions...)
	return found
}

func offsets(topic string, partition int32, offset int64) kadm.Offsets {
	found := kadm.Offsets{}
	found.AddOffset(topic, partition, offset, -1)
	return found
}

func runAdminSweep(bootstrap string, secured string) {
	client, err := kgo.NewClient(
		kgo.SeedBrokers(bootstrap),
		kgo.ClientID("kadm-client"),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.MetadataMinAge(readerMetadataAge),
	)
	must(err)
	s := &adminSweep{client: client, admin: kadm.NewClient(client), cells: map[string]cell{}}
	s.topics()
	s.records()
	s.configs()
	s.groups(bootstrap)
	s.shares()
	s.transactions(bootstrap)
	s.security()
	s.tokens(secured)
	s.cluster()
	s.deletions()
	s.print()
}

func (s *adminSweep) topics() {
	config := map[string]*string{"retention.ms": kadm.StringPtr("3600000")}
	one, none := int32(1), map[string]*string(nil)
	s.call("SetTimeoutMillis", "SetTimeoutMillis", int32(15_000))
	s.call("ValidateCreateTopics", "ValidateCreateTopics", int32(2), int16(1), config, adminTopic)
	s.call("CreateTopics", "CreateTopics", int32(2), int16(1), config, adminTopic)
	s.call("CreateTopics refused", "CreateTopics", one, int16(9), none, adminTopic, "bad name",
		adminMissing)
	s.call("CreateTopic", "CreateTopic", int32(-1), int16(-1), none, "kadm-default")
	s.call("CreateTopic refused", "CreateTopic", one, int16(1),
		map[string]*string{"no.such": kadm.StringPtr("1")}, adminMissing)
	s.call("ValidateCreatePartitions", "ValidateCreatePartitions", 7, adminTopic)
	s.awaitPartitions(2)
	s.call("CreatePartitions", "CreatePartitions", 1, adminTopic, adminMissing)
	s.awaitPartitions(3)
	s.call("ValidateUpdatePartitions", "ValidateUpdatePartitions", 9, adminTopic, adminMissing)
	s.call("UpdatePartitions", "UpdatePartitions", 4, adminTopic)
	s.call("UpdatePartitions to fewer", "UpdatePartitions", 1, adminTopic)
	s.awaitPartitions(4)
	s.call("ListTopics", "ListTopics", adminTopic, adminMissing)
	s.call("ListTopicsWithInternal", "ListTopicsWithInternal", adminTopic)
	s.call("Metadata", "Metadata", adminTopic)
	s.call("Metadata refused", "Metadata", "bad name")
}

func (s *adminSweep) awaitPartitions(count int) {
	awaitCondition("partitions", func(ctx context.Context) bool {
		found, err := s.admin.ListTopics(ctx, adminTopic)
		return err == nil && len(found[adminTopic].Partitions) == count
	})
}

func (s *adminSweep) records() {
	ctx, cancel := adminContext()
	defer cancel()
	for number := range 8 {
		record := &kgo.Record{
			Topic: adminTopic, Partition: int32(number % 4), Value: []byte("value"),
			Timestamp: time.UnixMilli(1_700_000_000_000),
		}
		must(s.client.ProduceSync(ctx, record).FirstErr())
	}
	for _, method := range []string{
		"ListStartOffsets", "ListEndOffsets", "ListCommittedOffsets", "ListMaxTimestampOffsets",
		"ListLocalLogStartOffsets", "ListLatestRemoteOffsets",
	} {
		s.call(method, method, adminTopic)
	}
	s.call("ListEndOffsets unknown", "ListEndOffsets", adminMissing)
	s.call("ListOffsetsAfterMilli", "ListOffsetsAfterMilli", int64(1_600_000_000_000), adminTopic)
	s.call("ListOffsetsAfterMilli of the future", "ListOffsetsAfterMilli",
		int64(4_000_000_000_000), adminTopic)
	epochs := kadm.OffsetForLeaderEpochRequest{}
	epochs.Add(adminTopic, 0, 0)
	epochs.Add(adminTopic, 1, 9)
	epochs.Add(adminMissing, 0, 0)
	s.call("OffsetForLeaderEpoch", "OffsetForLeaderEpoch", epochs)
	s.call("OffetForLeaderEpoch", "OffetForLeaderEpoch", epochs)
	s.call("DeleteRecords", "DeleteRecords", offsets(adminTopic, 0, 1))
	s.call("DeleteRecords refused", "DeleteRecords", offsets(adminTopic, 1, 99))
}

func (s *adminSweep) configs() {
	setting := []kadm.AlterConfig{
		{Op: kadm.SetConfig, Name: "segment.ms", Value: kadm.StringPtr("60000")},
	}
	wrong := []kadm.AlterConfig{
		{Op: kadm.SetConfig, Name: "segment.ms", Value: kadm.StringPtr("never")},
	}
	ofBroker := []kadm.AlterConfig{
		{Op: kadm.SetConfig, Name: "log.retention.ms", Value: kadm.StringPtr("7200000")},
	}
	ofCluster := []kadm.AlterConfig{{Op: kadm.DeleteConfig, Name: "log.retention.ms"}}
	s.call("DescribeTopicConfigs", "DescribeTopicConfigs", adminTopic, adminMissing)
	s.call("DescribeBrokerConfigs", "DescribeBrokerConfigs", int32(1))
	for _, prefix := range []string{"Validate", ""} {
		topics, brokers := prefix+"AlterTopicConfigs", prefix+"AlterBrokerConfigs"
		s.call(topics, topics, setting, adminTopic, adminMissing)
		s.call(topics+" refused", topics, wrong, adminTopic)
		s.call(topics+"State", topics+"State", setting, adminTopic)
		s.call(topics+"State refused", topics+"State", wrong, adminTopic)
		s.call(brokers, brokers, ofBroker, int32(1))
		s.call(brokers+" of the cluster", brokers, ofCluster)
		s.call(brokers+"State", brokers+"State", []kadm.AlterConfig{}, int32(1))
	}
	s.call("ListConfigResources", "ListConfigResources", kmsg.ConfigResourceTypeBroker)
}

func (s *adminSweep) groups(bootstrap string) {
	member, err := kgo.NewClient(
		kgo.SeedBrokers(bootstrap), kgo.ClientID("kadm-member"), kgo.ConsumerGroup(adminGroup),
		kgo.ConsumeTopics(adminTopic), kgo.DisableAutoCommit(), kgo.InstanceID("static-1"),
		kgo.Balancers(kgo.RangeBalancer()),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
	)
	must(err)
	awaitCondition("assignment", func(ctx context.Context) bool {
		ctx, cancel := context.WithTimeout(ctx, pollTime)
		defer cancel()
		member.PollFetches(ctx)
		found, err := s.admin.DescribeGroups(ctx, adminGroup)
		return err == nil && found[adminGroup].State == "Stable"
	})
	s.call("CommitOffsets with members", "CommitOffsets", adminGroup, offsets(adminTopic, 0, 1))
	s.stableGroup()
	s.call("LeaveGroup unknown", "LeaveGroup", kadm.LeaveGroup(adminGroup).InstanceIDs("static-9"))
	s.call("LeaveGroup", "LeaveGroup",
		kadm.LeaveGroup(adminGroup).InstanceIDs("static-1").Reason("to test"))
	member.CloseAllowingRebalance()
	awaitCondition("no members", func(ctx context.Context) bool {
		found, err := s.admin.DescribeGroups(ctx, adminGroup)
		return err == nil && found[adminGroup].State == "Empty"
	})
	s.committed()
}

func (s *adminSweep) stableGroup() {
	ours := []string{adminGroup}
	s.callFor("ListGroups", "ListGroups", ours)
	s.callFor("ListGroups of a state", "ListGroups", ours, "Stable")
	s.callFor("ListGroupsByType", "ListGroupsByType", ours, []string{"classic"}, "Stable")
	s.call("DescribeGroups", "DescribeGroups", adminGroup)
	s.call("DescribeGroups unknown", "DescribeGroups", adminMissing)
	s.call("DescribeConsumerGroups", "DescribeConsumerGroups", adminGroup, adminMissing)
	s.call("DeleteGroup with members", "DeleteGroup", adminGroup)
	s.call("DeleteOffsets with members", "DeleteOffsets", adminGroup, set(adminTopic, 0))
}

func (s *adminSweep) committed() {
	ctx, cancel := adminContext()
	defer cancel()
	topics, err := s.admin.ListTopics(ctx, adminTopic)
	must(err)
	byID := kadm.OffsetsByID{}
	byID.Add(kadm.Offset{
		Topic: adminTopic, TopicID: topics[adminTopic].ID, Partition: 2, At: 1, LeaderEpoch: -1,
	})
	s.call("CommitOffsets", "CommitOffsets", adminGroup, offsets(adminTopic, 0, 1))
	s.call("CommitOffsets unknown topic", "CommitOffsets", adminGroup, offsets(adminMissing, 0, 1))
	s.call("CommitAllOffsets", "CommitAllOffsets", adminGroup, offsets(adminTopic, 1, 1))
	s.call("CommitOffsetsByID", "CommitOffsetsByID", adminGroup, byID)
	s.call("CommitAllOffsetsByID", "CommitAllOffsetsByID", adminGroup, byID)
	s.call("FetchOffsets", "FetchOffsets", adminGroup)
	s.call("FetchOffsets unknown", "FetchOffsets", adminMissing)
	s.call("FetchOffsetsByID", "FetchOffsetsByID", adminGroup)
	s.call("FetchOffsetsForTopics", "FetchOffsetsForTopics", adminGroup, adminTopic)
	s.call("FetchManyOffsets", "FetchManyOffsets", adminGroup, adminMissing)
	s.call("Lag", "Lag", adminGroup)
	s.call("FindGroupCoordinators", "FindGroupCoordinators", adminGroup)
	s.call("DeleteOffsets", "DeleteOffsets", adminGroup, set(adminTopic, 0))
	s.call("DeleteOffsets unknown", "DeleteOffsets", adminMissing, set(adminTopic, 0))
	s.call("DeleteGroups", "DeleteGroups", adminGroup, adminMissing)
	s.call("DeleteGroup unknown", "DeleteGroup", adminMissing)
}

func (s *adminSweep) shares() {
	s.call("FindShareCoordinators", "FindShareCoordinators", adminShare)
	s.call("AlterShareGroupOffsets", "AlterShareGroupOffsets", adminShare,
		offsets(adminTopic, 0, 1))
	s.call("DescribeShareGroups", "DescribeShareGroups", adminShare, adminMissing)
	s.call("DescribeShareGroupOffsets", "DescribeShareGroupOffsets", adminShare, adminMissing)
	s.call("DeleteShareGroupOffsets", "DeleteShareGroupOffsets", adminShare, adminTopic)
}

func (s *adminSweep) transactions(bootstrap string) {
	producer, err := kgo.NewClient(kgo.SeedBrokers(bootstrap), kgo.TransactionalID(adminTxn),
		kgo.RecordPartitioner(kgo.ManualPartitioner()))
	must(err)
	defer producer.Close()
	must(producer.BeginTransaction())
	ctx, cancel := adminContext()
	defer cancel()
	record := &kgo.Record{Topic: adminTopic, Partition: 3, Value: []byte("value")}
	must(producer.ProduceSync(ctx, record).FirstErr())
	id, epoch, err := producer.ProducerID(ctx)
	must(err)
	ours := []string{adminTxn}
	s.callFor("ListTransactions", "ListTransactions", ours, nil, nil)
	s.callFor("ListTransactions of a producer", "ListTransactions", ours, []int64{987_654_321},
		[]string{"Ongoing"})
	s.callFor("ListTransactionsByTxPattern", "ListTransactionsByTxPattern", ours, nil, nil,
		"kadm-.*")
	s.callFor("ListTransactionsByTxPattern refused", "ListTransactionsByTxPattern", ours, nil, nil,
		"(")
	s.call("DescribeTransactions", "DescribeTransactions", adminTxn, adminMissing)
	s.call("DescribeProducers", "DescribeProducers", set(adminTopic, 3))
	s.call("DescribeProducers unknown", "DescribeProducers", set(adminMissing, 0))
	s.call("FindTxnCoordinators", "FindTxnCoordinators", adminTxn)
	s.call("WriteTxnMarkers", "WriteTxnMarkers", kadm.TxnMarkers{
		ProducerID: id, ProducerEpoch: epoch, Topics: set(adminTopic, 3),
	})
	s.call("WriteTxnMarkers refused", "WriteTxnMarkers", kadm.TxnMarkers{
		ProducerID: id, ProducerEpoch: epoch - 1, Topics: set(adminTopic, 3),
	})
}

func (s *adminSweep) security() {
	acl := func() *kadm.ACLBuilder {
		return kadm.NewACLs().Topics(adminTopic).Allow("User:" + adminUser).AllowHosts("*").
			ResourcePatternType(kadm.ACLPatternLiteral).Operations(kadm.OpRead)
	}
	s.call("CreateACLs", "CreateACLs", acl())
	awaitCondition("ACL", func(ctx context.Context) bool {
		found, err := s.admin.DescribeACLs(ctx, acl())
		return err == nil && len(found) == 1 && len(found[0].Described) == 1
	})
	s.call("DescribeACLs", "DescribeACLs", acl())
	s.call("DeleteACLs", "DeleteACLs", acl())
	user := adminUser
	quota := []kadm.AlterClientQuotaEntry{{
		Entity: kadm.ClientQuotaEntity{{Type: "user", Name: &user}},
		Ops:    []kadm.AlterClientQuotaOp{{Key: "producer_byte_rate", Value: 1024}},
	}}
	wrong := []kadm.AlterClientQuotaEntry{{
		Entity: kadm.ClientQuotaEntity{{Type: "user", Name: &user}},
		Ops:    []kadm.AlterClientQuotaOp{{Key: "no_such_rate", Value: 1}},
	}}
	filter := []kadm.DescribeClientQuotaComponent{
		{Type: "user", MatchName: &user, MatchType: kmsg.QuotasMatchTypeExact},
	}
	s.call("ValidateAlterClientQuotas", "ValidateAlterClientQuotas", quota)
	s.call("AlterClientQuotas", "AlterClientQuotas", quota)
	s.call("AlterClientQuotas refused", "AlterClientQuotas", wrong)
	awaitCondition("quota", func(ctx context.Context) bool {
		found, err := s.admin.DescribeClientQuotas(ctx, true, filter)
		return err == nil && len(found) == 1
	})
	s.call("DescribeClientQuotas", "DescribeClientQuotas", true, filter)
	s.call("AlterUserSCRAMs", "AlterUserSCRAMs",
		[]kadm.DeleteSCRAM{{User: adminMissing, Mechanism: kadm.ScramSha256}},
		[]kadm.UpsertSCRAM{{
			User: adminUser, Mechanism: kadm.ScramSha256, Iterations: 4096, Password: "secret",
		}})
	awaitCondition("credential", func(ctx context.Context) bool {
		found, err := s.admin.DescribeUserSCRAMs(ctx, adminUser)
		return err == nil && len(found[adminUser].CredInfos) == 1
	})
	s.call("DescribeUserSCRAMs", "DescribeUserSCRAMs", adminUser, adminMissing)
}

func (s *adminSweep) tokens(secured string) {
	client, err := kgo.NewClient(
		kgo.SeedBrokers(secured),
		kgo.SASL(plain.Auth{User: "alice", Pass: "alice-secret"}.AsMechanism()),
	)
	must(err)
	admin := kadm.NewClient(client)
	request := kadm.CreateDelegationToken{
		Renewers: []kadm.Principal{{Type: "User", Name: "carol"}}, MaxLifetime: time.Hour,
	}
	results := invoke(admin, "CreateDelegationToken", request)
	s.store("CreateDelegationToken", "CreateDelegationToken", answerOf(results))
	hmac := results[0].Interface().(kadm.DelegationToken).HMAC
	s.call("CreateDelegationToken without SASL", "CreateDelegationToken", request)
	awaitCondition("token", func(ctx context.Context) bool {
		found, err := admin.DescribeDelegationTokens(ctx)
		return err == nil && len(found) == 1
	})
	s.callOf(admin, "DescribeDelegationTokens", "DescribeDelegationTokens")
	s.callOf(admin, "DescribeDelegationTokens of an owner", "DescribeDelegationTokens",
		kadm.Principal{Type: "User", Name: "bob"})
	s.callOf(admin, "RenewDelegationToken", "RenewDelegationToken", hmac, time.Minute)
	s.callOf(admin, "RenewDelegationToken unknown", "RenewDelegationToken", []byte("x"), time.Minute)
	s.callOf(admin, "ExpireDelegationToken unknown", "ExpireDelegationToken", []byte("x"),
		time.Minute)
	s.callOf(admin, "ExpireDelegationToken", "ExpireDelegationToken", hmac, -time.Millisecond)
	s.callOf(admin, "Close", "Close")
}

func (s *adminSweep) cluster() {
	s.call("ApiVersions", "ApiVersions")
	s.call("BrokerMetadata", "BrokerMetadata")
	s.call("ListBrokers", "ListBrokers")
	s.call("UpdateFeatures", "UpdateFeatures", false,
		kadm.FeatureUpdate{Feature: "group.version", MaxVersionLevel: 1, UpgradeType: 1})
	s.call("UpdateFeatures refused", "UpdateFeatures", true,
		kadm.FeatureUpdate{Feature: "no.such.version", MaxVersionLevel: 1, UpgradeType: 1})
	s.call("ElectLeaders", "ElectLeaders", kadm.ElectPreferredReplica, set(adminTopic, 0))
	s.call("ElectLeaders unknown", "ElectLeaders", kadm.ElectLiveReplica, set(adminMissing, 0))
	assignments := kadm.AlterPartitionAssignmentsReq{}
	assignments.Assign(adminTopic, 0, []int32{1})
	assignments.Assign(adminTopic, 1, []int32{9})
	assignments.Assign(adminMissing, 0, []int32{1})
	assignments.CancelAssign(adminTopic, 2)
	s.call("AlterPartitionAssignments", "AlterPartitionAssignments", assignments)
	s.call("ListPartitionReassignments", "ListPartitionReassignments", set(adminTopic, 0))
	s.logDirectories()
}

func (s *adminSweep) logDirectories() {
	ctx, cancel := adminContext()
	defer cancel()
	directories, err := s.admin.DescribeBrokerLogDirs(ctx, 1, set(adminTopic, 0))
	must(err)
	moves := kadm.AlterReplicaLogDirsReq{}
	for directory := range directories {
		moves.Add(directory, set(adminTopic, 0))
		moves.Add(directory, set(adminMissing, 0))
	}
	moves.Add("/no/such/directory", set(adminTopic, 1))
	s.call("DescribeBrokerLogDirs", "DescribeBrokerLogDirs", int32(1), set(adminTopic, 0))
	s.call("DescribeAllLogDirs", "DescribeAllLogDirs", set(adminTopic, 0))
	s.call("AlterBrokerReplicaLogDirs", "AlterBrokerReplicaLogDirs", int32(1), moves)
	s.call("AlterAllReplicaLogDirs", "AlterAllReplicaLogDirs", moves)
}

func (s *adminSweep) deletions() {
	s.call("DeleteTopic", "DeleteTopic", "kadm-default")
	s.call("DeleteTopic unknown", "DeleteTopic", adminMissing)
	s.call("DeleteTopics", "DeleteTopics", adminTopic, adminMissing)
}
