// A reader of one partition; partition_readers.py describes it.
package main

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kversion"
)

const readerMetadataAge = 100 * time.Millisecond

// Read partition 0 of a topic until the process is killed.
func read(servers string, topic string, offset string, epoch string, version string) error {
	at, err := strconv.ParseInt(offset, 10, 64)
	if err != nil {
		return err
	}
	leaderEpoch, err := strconv.ParseInt(epoch, 10, 32)
	if err != nil {
		return err
	}
	options := []kgo.Opt{
		kgo.SeedBrokers(strings.Split(servers, ",")...),
		kgo.ClientID("reader"),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {
			0: kgo.NewOffset().At(at).WithEpoch(int32(leaderEpoch)),
			1: kgo.NewOffset().AtStart(),
		}}),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.MetadataMinAge(readerMetadataAge / 2),
		kgo.MetadataMaxAge(readerMetadataAge),
	}
	if version == "older" {
		// Requests of Kafka 2.0 have no leader epochs that a client can compare.
		options = append(options, kgo.MaxVersions(kversion.V2_0_0()))
	}
	client, err := kgo.NewClient(options...)
	if err != nil {
		return err
	}
	defer client.Close()
	say("ready")
	for {
		fetches := client.PollFetches(context.Background())
		fetches.EachRecord(func(record *kgo.Record) {
			if record.Partition == 0 {
				say("record %d %s", record.Offset, record.Value)
			}
		})
		for _, failed := range fetches.Errors() {
			if errors.Is(failed.Err, kerr.UnknownTopicID) {
				// The client returns it again and again without a pause.
				return failed.Err
			}
			say("failed %v", failed.Err)
		}
	}
}
