// Finds what a Prometheus would scrape by kubernetes_sd_configs and relabel_configs, with its own code for both, for the Prometheus of
// Debian, which was built without: writes it as a file for file_sd_configs, again whenever it changes.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"sort"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/model"
	"github.com/prometheus/common/promslog"
	"github.com/prometheus/prometheus/discovery"
	"github.com/prometheus/prometheus/discovery/kubernetes"
	"github.com/prometheus/prometheus/discovery/targetgroup"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/relabel"
	"go.yaml.in/yaml/v2"
)

// What of a configuration it is about.
type configuration struct {
	Jobs []job `yaml:"scrape_configs"`
}

type job struct {
	Name    string                 `yaml:"job_name"`
	Where   []*kubernetes.SDConfig `yaml:"kubernetes_sd_configs"`
	Relabel []*relabel.Config      `yaml:"relabel_configs"`
}

type group struct {
	Targets []string          `json:"targets"`
	Labels  map[string]string `json:"labels"`
}

func main() {
	if len(os.Args) != 3 {
		fail(fmt.Errorf("usage: %s CONFIGURATION TARGETS", os.Args[0]))
	}
	text, err := os.ReadFile(os.Args[1])
	if err != nil {
		fail(err)
	}
	var known configuration
	if err := yaml.Unmarshal(text, &known); err != nil {
		fail(err)
	}
	fail(follow(known.Jobs, os.Args[2]))
}

// Follows all jobs for ever.
func follow(jobs []job, path string) error {
	ctx, registry := context.Background(), prometheus.NewRegistry()
	log := promslog.New(&promslog.Config{Level: promslog.NewLevel(), Format: promslog.NewFormat()})
	metrics, err := discovery.CreateAndRegisterSDMetrics(registry)
	if err != nil {
		return err
	}
	manager := discovery.NewManager(ctx, log, registry, metrics)
	if manager == nil {
		return fmt.Errorf("no discovery")
	}
	where, by := map[string]discovery.Configs{}, map[string][]*relabel.Config{}
	for _, job := range jobs {
		by[job.Name] = job.Relabel
		for _, rule := range job.Relabel {
			rule.NameValidationScheme = model.UTF8Validation
		}
		for _, one := range job.Where {
			where[job.Name] = append(where[job.Name], one)
		}
	}
	if err := manager.ApplyConfig(where); err != nil {
		return err
	}
	go func() { fail(manager.Run()) }()
	for found := range manager.SyncCh() {
		if err := write(path, targets(found, by), log); err != nil {
			return err
		}
	}
	return nil
}

// What remains of all that was found, with its labels.
func targets(found map[string][]*targetgroup.Group, by map[string][]*relabel.Config) []group {
	kept := []group{}
	for job, groups := range found {
		for _, one := range groups {
			for _, target := range one.Targets {
				builder := labels.NewBuilder(labels.EmptyLabels())
				builder.Set(model.JobLabel, job)
				for _, some := range []model.LabelSet{one.Labels, target} {
					for name, value := range some {
						builder.Set(string(name), string(value))
					}
				}
				if !relabel.ProcessBuilder(builder, by[job]...) {
					continue
				}
				with := map[string]string{}
				builder.Range(func(label labels.Label) {
					if len(label.Name) < 2 || label.Name[:2] != "__" {
						with[label.Name] = label.Value
					}
				})
				kept = append(kept, group{[]string{builder.Get(model.AddressLabel)}, with})
			}
		}
	}
	sort.Slice(kept, func(a, b int) bool { return fmt.Sprint(kept[a]) < fmt.Sprint(kept[b]) })
	return kept
}

func write(path string, kept []group, log *slog.Logger) error {
	text, err := json.Marshal(kept)
	if err != nil {
		return err
	}
	log.Info("found", "targets", string(text))
	next := path + ".next"
	if err := os.WriteFile(next, text, 0o600); err != nil {
		return err
	}
	return os.Rename(next, path)
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}
