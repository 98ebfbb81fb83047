package metrics_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/varvelog/varve"
	"github.com/varvelog/varve/metrics"
)

// An engine and what it has to say at /metrics.
func ExampleNewCollector() {
	dir, err := os.MkdirTemp("", "varve-example-")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	engine, err := varve.Open(dir, varve.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer engine.Close()
	orders, err := engine.CreateTopic("orders", varve.TopicConfig{Partitions: 4})
	if err != nil {
		log.Fatal(err)
	}
	if _, err := orders.Publish(context.Background(), varve.Record{Key: []byte("order-1001"), Value: []byte("paid")}); err != nil {
		log.Fatal(err)
	}

	registry := prometheus.NewRegistry()
	registry.MustRegister(metrics.NewCollector(engine, metrics.Options{}))
	mux := http.NewServeMux()
	mux.Handle("/metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	server := httptest.NewServer(mux) // in a program: http.ListenAndServe(":9090", mux)
	defer server.Close()

	page, err := http.Get(server.URL + "/metrics")
	if err != nil {
		log.Fatal(err)
	}
	defer page.Body.Close()
	text, err := io.ReadAll(page.Body)
	if err != nil {
		log.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "varve_topic_appended_records_total") || strings.HasPrefix(line, "varve_topic_partitions{") {
			fmt.Print(line)
		}
	}
	// Output:
	// varve_topic_appended_records_total{topic="orders"} 1
	// varve_topic_partitions{topic="orders"} 4
}
