package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"
)

// grace is what a child gets between SIGTERM and SIGKILL when the launcher is gone.
const grace = 2 * time.Second

// lifeline runs a command that knows nothing of launchers as a child, and ends it when our own standard input does.
// Signals are passed on. The exit status is the child's, 128 + signal if it was killed by one.
func lifeline(arguments []string) int {
	if len(arguments) < 2 || arguments[0] != "--" {
		refuse(usage)
	}
	child := exec.Command(arguments[1], arguments[2:]...)
	child.Stdout, child.Stderr = os.Stdout, os.Stderr
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	if err := child.Start(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 127
	}
	ended := make(chan error, 1)
	go func() { ended <- child.Wait() }()
	launcherGone := make(chan struct{})
	go func() {
		waitForLauncher()
		close(launcherGone)
	}()
	var tooLate <-chan time.Time
	for {
		select {
		case err := <-ended:
			return status(err)
		case received := <-signals:
			_ = child.Process.Signal(received)
		case <-launcherGone:
			launcherGone = nil // a closed channel is always ready; nil never is
			_ = child.Process.Signal(syscall.SIGTERM)
			tooLate = time.After(grace)
		case <-tooLate:
			_ = child.Process.Kill()
		}
	}
}

// exitWithLauncher ends this process at once: nothing that a lab holds outlives its launcher, so nothing is worth saving.
func exitWithLauncher() {
	waitForLauncher()
	os.Exit(0)
}

func waitForLauncher() {
	_, _ = io.Copy(io.Discard, os.Stdin) // an error means the same as the end: nobody is there
}

func status(err error) int {
	var failed *exec.ExitError
	switch {
	case err == nil:
		return 0
	case !errors.As(err, &failed):
		return 1
	}
	if wait, ok := failed.Sys().(syscall.WaitStatus); ok && wait.Signaled() {
		return 128 + int(wait.Signal())
	}
	return failed.ExitCode()
}
