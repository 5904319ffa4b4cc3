//! `cadre node` and `cadre config`, as processes.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "common/process.rs"]
mod process;

use std::{
    fs,
    process::{Output, Stdio},
};

use process::{Dev, cadre};
use serde_json::Value;

fn run(arguments: &[&str], variables: &[(&str, &str)]) -> Output {
    let mut command = cadre("");
    command.args(arguments).envs(variables.iter().copied());
    command.output().unwrap()
}

fn out(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn err(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

fn get(url: &str, path: &str) -> (u16, String) {
    let agent: ureq::Agent =
        ureq::Agent::config_builder().http_status_as_error(false).proxy(None).build().into();
    let mut response = agent.get(format!("{url}{path}")).call().unwrap();
    (response.status().as_u16(), response.body_mut().read_to_string().unwrap())
}

#[test]
fn a_node_serves_by_its_configuration_and_drains_on_sigterm() {
    let folder = tempfile::tempdir().unwrap();
    let (data, file) = (folder.path().join("data"), folder.path().join("cadre.toml"));
    let text = format!(
        "[node]\nname = 'n1'\nshards = 8\n[store]\ndata = '{}'\n[gateway]\nlisten = '127.0.0.1:1'\n",
        data.display()
    );
    fs::write(&file, text).unwrap();
    let file = file.to_str().unwrap();
    let node = Dev::start(&["node", "--config", file, "--listen", "127.0.0.1:0"], Stdio::null());
    let url = node.ready();
    assert_eq!(get(&url, "/readyz").0, 200);
    let args = ["--url", &url, "submit", "--session", "s", "--wait", r#"[{"say": "hello"}]"#];
    let submitted = run(&args, &[]);
    assert!(submitted.status.success() && out(&submitted).contains("hello"), "{}", err(&submitted));
    // Nobody else gets the folder meanwhile.
    let second = run(&["node", "--config", file, "--listen", "127.0.0.1:0"], &[]);
    assert_eq!(second.status.code(), Some(1));
    let said = err(&second);
    assert!(said.contains("cannot use the data folder") && said.contains(data.to_str().unwrap()), "{said}");
    node.signal("TERM");
    assert!(node.ended().success());
    // A node goes on where it was, under the name that it had.
    let node = Dev::start(&["node", "--config", file, "--listen", "127.0.0.1:0"], Stdio::null());
    let events = get(&node.ready(), "/v1/sessions/s/events").1;
    assert!(events.contains("turn.completed"), "P2: {events}");
    node.signal("TERM");
    assert!(node.ended().success());
}

#[test]
fn what_a_node_cannot_do_it_says() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let data = data.to_str().unwrap();
    for (arguments, reason) in [
        (&["--roles", "worker"][..], "node.roles: an embedded store belongs to one process"),
        (&["--roles", "gateway"][..], "give a cluster FoundationDB"),
        (&["--roles", "boss"][..], "\"boss\" is not one of gateway, worker"),
        (
            &[
                "--set",
                "bus.driver=nats",
                "--set",
                "bus.servers=nats://127.0.0.1:9",
                "--set",
                "bus.connect_timeout=1s",
            ][..],
            "cannot reach NATS",
        ),
        (&["--listen", "0.0.0.0:0"][..], "--insecure"),
        (&["--set", "node.shard=3"][..], "is node.shards meant?"),
    ] {
        let mut all = vec!["node", "--listen", "127.0.0.1:0", "--data", data, "--name", "n1"];
        if arguments[0] == "--listen" {
            all.drain(1..3);
        }
        all.extend(arguments);
        let output = run(&all, &[]);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}");
        assert!(err(&output).contains(reason), "{arguments:?}: {}", err(&output));
        assert!(out(&output).is_empty());
    }
    if !cfg!(feature = "fdb") {
        let output = run(&["node", "--set", "store.driver=fdb", "--set", "bus.driver=nats"], &[]);
        assert!(err(&output).contains("cargo feature fdb"), "{}", err(&output));
    }
}

#[test]
fn config_check_says_everything_that_is_wrong() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("cadre.toml");
    let file = file.to_str().unwrap();
    fs::write(file, "[gateway]\nlistn = '127.0.0.1:1'\n[node]\nshards = 0\n").unwrap();
    let output = run(&["config", "check", file], &[("CADRE_NODE_NAMES", "n1")]);
    assert_eq!(output.status.code(), Some(1));
    let expected = format!(
        "gateway.listn: there is no such key; is gateway.listen meant? ({file})\nnode.shards: 0 is out of bounds: 1 to 4096 ({file})\n"
    );
    assert_eq!(out(&output), expected);
    assert!(err(&output).contains("$CADRE_NODE_NAME meant"), "{}", err(&output));
    let output = run(&["--json", "config", "check"], &[("CADRE_CONFIG", file)]);
    let answer: Value = serde_json::from_str(&out(&output)).unwrap();
    assert_eq!((&answer["valid"], answer["problems"].as_array().unwrap().len()), (&Value::Bool(false), 2));
    assert_eq!(answer["problems"][1]["key"], "node.shards");
    fs::write(file, "[node]\nshards = 8\n").unwrap();
    let output = run(&["config", "check", file], &[]);
    assert!(output.status.success() && out(&output) == "the configuration can be used\n", "{}", out(&output));
}

#[test]
fn config_show_masks_secrets_and_says_where_values_come_from() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("cadre.toml");
    let file = file.to_str().unwrap();
    fs::write(file, "[bus]\ndriver = 'nats'\ntoken = 'hush'\n").unwrap();
    let variables = [("CADRE_CONFIG", file), ("CADRE_NODE_NAME", "n1"), ("CADRE_LISTEN", "127.0.0.1:9")];
    let output = run(&["config", "show", "--set", "node.shards=16"], &variables);
    let expected = format!(
        "[node]\nname = \"n1\" # $CADRE_NODE_NAME\nshards = 16 # --set\n\n[gateway]\nlisten = \"127.0.0.1:9\" # $CADRE_LISTEN\n\n\
         [bus]\ndriver = \"nats\" # {file}\ntoken = \"***\" # {file}\n"
    );
    assert_eq!(out(&output), expected, "{}", err(&output));
    let output = run(&["config", "show", "--effective", "--json"], &variables);
    let shown: Value = serde_json::from_str(&out(&output)).unwrap();
    assert_eq!(
        (&shown["bus.token"]["value"], &shown["node.shards"]["source"]),
        (&"***".into(), &"default".into())
    );
}
