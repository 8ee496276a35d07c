// Command controlplane is etcd, kube-apiserver, kube-controller-manager and kube-scheduler in one binary, chosen by the
// first argument, so that the lab builds once and starts anywhere without containers.
//
// A lab must leave nothing behind, however its launcher ends (kill -9 included) and on any operating system. The launcher
// therefore keeps the write end of each process's standard input: when the launcher is gone, the kernel closes it, and
// the process ends by itself.
package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
)

const usage = "usage: controlplane etcd|apiserver|controller-manager|scheduler FLAGS… | lifeline -- COMMAND ARGS…"

// kubernetes are the components that cobra runs; a kubelet would be one more line.
var kubernetes = map[string]func() *cobra.Command{
	"apiserver":          apiserver.NewAPIServerCommand,
	"controller-manager": controllermanager.NewControllerManagerCommand,
	"scheduler":          func() *cobra.Command { return scheduler.NewSchedulerCommand() },
}

func main() {
	if len(os.Args) < 2 {
		refuse(usage)
	}
	name := os.Args[1]
	if name == "lifeline" {
		os.Exit(lifeline(os.Args[2:]))
	}
	if os.Getenv("SICKBAY_LAB_LIFELINE") == "1" {
		go exitWithLauncher()
	}
	os.Args = os.Args[1:] // each component names itself after the first argument
	if name == "etcd" {
		etcdmain.Main(os.Args)
		return
	}
	component, known := kubernetes[name]
	if !known {
		refuse(fmt.Sprintf("unknown component %q\n%s", name, usage))
	}
	os.Exit(cli.Run(component()))
}

func refuse(message string) {
	fmt.Fprintln(os.Stderr, message)
	os.Exit(2)
}
