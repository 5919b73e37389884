// A driver of franz-go; drivers/protocol.py describes its requests. It produces, and reads in groups.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	driverTimeout = time.Minute
	// So that a new leader is known soon.
	metadataMinAge = 100 * time.Millisecond
)

type request struct {
	Op       string
	Topic    string
	Records  [][3]any
	Consumer string
	Group    string
}

type member struct {
	name   string
	client *kgo.Client
	cancel context.CancelFunc
	done   chan struct{}
}

type driver struct {
	bootstrap []string
	producer  *kgo.Client
	members   map[string]*member
	lock      sync.Mutex
	events    [][3]any
}

// Answer requests from standard input until it ends.
func drive(bootstrap string) {
	d := &driver{bootstrap: strings.Split(bootstrap, ","), members: map[string]*member{}}
	d.events = [][3]any{}
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<24)
	answers := json.NewEncoder(os.Stdout)
	for lines.Scan() {
		var asked request
		result, err := any(nil), json.Unmarshal(lines.Bytes(), &asked)
		if err == nil {
			result, err = d.answer(asked)
		}
		if err != nil {
			answers.Encode(map[string]any{"error": err.Error()})
		} else {
			answers.Encode(map[string]any{"ok": result})
		}
	}
	for name := range d.members {
		d.leave(name)
	}
	if d.producer != nil {
		d.producer.Close()
	}
}

func (d *driver) answer(asked request) (any, error) {
	switch asked.Op {
	case "produce":
		return nil, d.produce(asked.Topic, asked.Records)
	case "join":
		return nil, d.join(asked)
	case "leave":
		d.leave(asked.Consumer)
		return nil, nil
	case "events":
		d.lock.Lock()
		defer d.lock.Unlock()
		taken := d.events
		d.events = [][3]any{}
		return taken, nil
	}
	return nil, fmt.Errorf("unknown operation %s", asked.Op)
}

func (d *driver) produce(topic string, rows [][3]any) (err error) {
	if d.producer == nil {
		d.producer, err = kgo.NewClient(
			kgo.SeedBrokers(d.bootstrap...),
			kgo.RecordPartitioner(kgo.ManualPartitioner()),
			kgo.ProducerBatchCompression(kgo.NoCompression()),
			kgo.MetadataMinAge(metadataMinAge),
			kgo.WithLogger(kgo.BasicLogger(os.Stderr, kgo.LogLevelWarn, nil)),
		)
		if err != nil {
			return err
		}
	}
	records := make([]*kgo.Record, len(rows))
	for i, row := range rows {
		partition := int32(row[0].(float64))
		records[i] = &kgo.Record{
			Topic: topic, Partition: partition, Key: bytesOf(row[1]), Value: bytesOf(row[2]),
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), driverTimeout)
	defer cancel()
	return d.producer.ProduceSync(ctx, records...).FirstErr()
}

func (d *driver) join(asked request) error {
	client, err := kgo.NewClient(
		kgo.SeedBrokers(d.bootstrap...),
		kgo.ClientID(asked.Consumer),
		kgo.ConsumerGroup(asked.Group),
		kgo.ConsumeTopics(asked.Topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.DisableAutoCommit(),
		kgo.MetadataMinAge(metadataMinAge),
		kgo.SessionTimeout(6*time.Second),
		kgo.HeartbeatInterval(heartbeatInterval),
		kgo.WithLogger(kgo.BasicLogger(os.Stderr, kgo.LogLevelWarn, nil)),
	)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	joined := &member{asked.Consumer, client, cancel, make(chan struct{})}
	d.members[asked.Consumer] = joined
	go d.consume(ctx, joined)
	return nil
}

// Poll, log and commit until the member leaves.
func (d *driver) consume(ctx context.Context, joined *member) {
	defer close(joined.done)
	isDirty := false
	for ctx.Err() == nil {
		rows, ends := joined.poll(ctx)
		if len(rows) > 0 {
			d.log("records", joined.name, rows)
		}
		if len(rows) > 0 || isDirty {
			isDirty = !d.commit(joined, ends)
		}
	}
	if isDirty {
		d.commit(joined, nil)
	}
}

// Return the next records, and the offset after the records of each partition.
func (m *member) poll(ctx context.Context) ([][4]any, map[int32]int64) {
	ctx, cancel := context.WithTimeout(ctx, pollTime)
	defer cancel()
	rows, ends := [][4]any{}, map[int32]int64{}
	m.client.PollFetches(ctx).EachRecord(func(record *kgo.Record) {
		key, value := textOf(record.Key), textOf(record.Value)
		rows = append(rows, [4]any{record.Partition, record.Offset, key, value})
		ends[record.Partition] = record.Offset + 1
	})
	return rows, ends
}

func (d *driver) commit(joined *member, ends map[int32]int64) bool {
	ctx, cancel := context.WithTimeout(context.Background(), driverTimeout)
	defer cancel()
	if err := joined.client.CommitUncommittedOffsets(ctx); err != nil {
		d.log("refused", joined.name, err.Error())
		return false
	}
	d.log("commit", joined.name, ends)
	return true
}

func (d *driver) leave(name string) {
	leaving := d.members[name]
	delete(d.members, name)
	leaving.cancel()
	<-leaving.done
	leaving.client.Close()
}

func (d *driver) log(kind string, consumer string, detail any) {
	d.lock.Lock()
	defer d.lock.Unlock()
	d.events = append(d.events, [3]any{kind, consumer, detail})
}

func bytesOf(text any) []byte {
	if text == nil {
		return nil
	}
	return []byte(text.(string))
}

func textOf(data []byte) any {
	if data == nil {
		return nil
	}
	return string(data)
}
