// Holds dashboards against the rules of Grafana's linter, and prints what it has against them, a line each.
package main

import (
	"fmt"
	"os"

	"github.com/grafana/dashboard-linter/lint"
)

func main() {
	var dashboards []lint.Dashboard
	for _, path := range os.Args[1:] {
		text, err := os.ReadFile(path)
		if err != nil {
			fail(err)
		}
		dashboard, err := lint.NewDashboard(text)
		if err != nil {
			fail(fmt.Errorf("%s: %w", path, err))
		}
		dashboards = append(dashboards, dashboard)
	}
	rules := lint.NewRuleSet()
	results, err := rules.Lint(dashboards)
	if err != nil {
		fail(err)
	}
	seen, wrong := 0, 0
	for rule, all := range results.ByRule() {
		for _, one := range all {
			for _, result := range one.Result.Results {
				seen++
				if result.Severity != lint.Success {
					wrong++
					fmt.Printf("%s: %s\n", rule, result.Message)
				}
			}
		}
	}
	fmt.Printf("%d looks, %d complaints\n", seen, wrong)
	if wrong > 0 {
		os.Exit(1)
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(2)
}
