// Write lines {"index": name, "source": document} of the standard input: writer PRODUCT URL
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log"
	"os"

	"github.com/elastic/go-elasticsearch/v9"
	"github.com/elastic/go-elasticsearch/v9/esutil"
	"github.com/opensearch-project/opensearch-go/v4"
	"github.com/opensearch-project/opensearch-go/v4/opensearchapi"
	"github.com/opensearch-project/opensearch-go/v4/opensearchutil"
)

type line struct {
	Index  string
	Source json.RawMessage
}

func main() {
	product, url := os.Args[1], os.Args[2]
	add, end := elastic(url)
	if product == "opensearch" {
		add, end = open(url)
	}
	written := uint64(0)
	for lines := json.NewDecoder(os.Stdin); ; written++ {
		var one line
		if err := lines.Decode(&one); errors.Is(err, io.EOF) {
			break
		} else {
			check(err)
		}
		check(add(one))
	}
	created := end()
	if created != written {
		log.Fatalf("%d of %d documents were created", created, written)
	}
}

func elastic(url string) (func(line) error, func() uint64) {
	client, err := elasticsearch.NewClient(elasticsearch.Config{Addresses: []string{url}})
	check(err)
	bulk, err := esutil.NewBulkIndexer(esutil.BulkIndexerConfig{Client: client})
	check(err)
	add := func(one line) error {
		body := bytes.NewReader(one.Source)
		item := esutil.BulkIndexerItem{Action: "create", Index: one.Index, Body: body}
		return bulk.Add(context.Background(), item)
	}
	return add, func() uint64 {
		check(bulk.Close(context.Background()))
		return bulk.Stats().NumCreated
	}
}

func open(url string) (func(line) error, func() uint64) {
	config := opensearch.Config{Addresses: []string{url}}
	client, err := opensearchapi.NewClient(opensearchapi.Config{Client: config})
	check(err)
	bulk, err := opensearchutil.NewBulkIndexer(opensearchutil.BulkIndexerConfig{Client: client})
	check(err)
	add := func(one line) error {
		body := bytes.NewReader(one.Source)
		item := opensearchutil.BulkIndexerItem{Action: "create", Index: one.Index, Body: body}
		return bulk.Add(context.Background(), item)
	}
	return add, func() uint64 {
		check(bulk.Close(context.Background()))
		return bulk.Stats().NumCreated
	}
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
