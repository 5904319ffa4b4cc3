use std::collections::BTreeMap;

use super::*;

fn file(text: &str) -> Layers {
    let mut layers = Layers::default();
    layers.text(text, &Source::File("cadre.toml".into()));
    layers
}

fn refused(layers: Layers) -> String {
    Config::of(layers).expect_err("it is refused").to_string()
}

#[test]
fn without_anything_said_it_is_a_node_of_its_own() {
    let (config, _) = Config::of(Layers::default()).unwrap();
    assert_eq!(config.node.roles, [Role::Gateway, Role::Worker]);
    assert_eq!(config.node.shards, 256);
    assert!(!config.node.name.is_empty());
    assert_eq!(config.gateway.listen.to_string(), "127.0.0.1:7600");
    assert!(matches!(config.store, Store::Embedded { data: None }));
    assert!(matches!(config.bus, Bus::Local));
    assert_eq!(config.retention, Retention::default());
    assert!(config.telemetry.endpoint.is_none());
}

#[test]
fn arguments_win_over_the_environment_and_that_over_the_file() {
    let mut layers = file("[node]\nname = 'file'\ncluster = 'file'\nshards = 8\n[retention]\nblobs = '2d'");
    let variables = BTreeMap::from([
        ("CADRE_NODE_NAME", "environment"),
        ("CADRE_NODE_CLUSTER", "environment"),
        ("CADRE_LISTEN", "127.0.0.1:1"),
        ("CADRE_DATA", "/short"),
        ("CADRE_STORE_DATA", "/long"),
    ]);
    layers.environment(|name| variables.get(name).map(|text| (*text).to_owned()));
    layers.argument("--name", "node.name", "argument");
    let (config, layers) = Config::of(layers).unwrap();
    assert_eq!((config.node.name.as_str(), config.node.cluster.as_str()), ("argument", "environment"));
    assert_eq!((config.node.shards, config.retention.blobs().as_secs()), (8, 2 * 86_400));
    assert_eq!(config.gateway.listen.port(), 1);
    assert!(matches!(config.store, Store::Embedded { data: Some(data) } if data.as_os_str() == "/long"));
    let said = |key| layers.get(key).1.to_string();
    assert_eq!(said("node.name"), "--name");
    assert_eq!(said("node.cluster"), "$CADRE_NODE_CLUSTER");
    assert_eq!(said("node.shards"), "cadre.toml");
    assert_eq!(said("node.roles"), "the default");
}

#[test]
fn what_is_wrong_is_named_all_of_it_at_once() {
    let refusal = refused(file(
        "top = 1\n[gateway]\nlistn = '127.0.0.1:1'\nlisten = 'here'\n[node]\nshards = 0\nroles = ['worker', 'king']\n\
         [store]\ndriver = 'sqlite'\n[retention]\nblobs = '1s'\n[telemetry]\nsample_ratio = 1.5",
    ));
    for line in [
        "top: a section such as [gateway] comes first (cadre.toml)",
        "gateway.listn: there is no such key; is gateway.listen meant? (cadre.toml)",
        "gateway.listen: \"here\" is not an address and a port, such as 127.0.0.1:7600 (cadre.toml)",
        "node.shards: 0 is out of bounds: 1 to 4096 (cadre.toml)",
        "node.roles: \"king\" is not one of gateway, worker (cadre.toml)",
        "store.driver: \"sqlite\" is not one of embedded, fdb (cadre.toml)",
        "retention.blobs: \"1s\" is out of bounds: 1m to 3650d (cadre.toml)",
        "telemetry.sample_ratio: \"1.5\" is not a number from 0 to 1 (cadre.toml)",
    ] {
        assert!(refusal.lines().any(|said| said == line), "{line}\nnot in\n{refusal}");
    }
    assert_eq!(refusal.lines().count(), 8, "{refusal}");
}

#[test]
fn what_does_not_go_together_is_refused() {
    for (text, reason) in [
        ("[node]\nroles = ['worker']", "node.roles: an embedded store belongs to one process"),
        ("[bus]\ndriver = 'nats'\nuser = 'ada'", "bus.user: a user needs a password"),
        ("[bus]\ndriver = 'nats'\ntoken = 'x'\nnkey_seed = 'y'", "bus.credentials_file: one way"),
        ("[bus]\ndriver = 'nats'\ntls_key_file = '/k'", "bus.tls_cert_file: a certificate needs its key"),
        ("[bus]\ndriver = 'nats'\nservers = []", "bus.servers: at least one"),
        ("[store]\ndriver = 'fdb'", "bus.driver: nodes that share a store"),
        ("[node]\nname = 'a b'", "node.name: a name has letters"),
        ("[log]\nfilter = 'cadre=loud'", "log.filter: is no filter"),
        ("[gateway]\ncors_origins = ['example.org']", "gateway.cors_origins: "),
        ("[telemetry]\notlp_endpoint = 'collector:4318'", "telemetry.otlp_endpoint: "),
        ("[telemetry]\notlp_headers = 'hush'", "telemetry.otlp_headers: a header is name=value"),
        ("[node", "cadre.toml: line 1: "),
        ("[node]\n\nname = hush", "cadre.toml: line 3: "),
    ] {
        let refusal = refused(file(text));
        assert!(refusal.lines().any(|line| line.starts_with(reason)), "{text}: {refusal}");
        assert!(!refusal.contains("hush"), "{refusal}");
    }
    let missing = std::path::Path::new("/nowhere/cadre.toml");
    let mut layers = Layers::default();
    layers.file(missing);
    assert!(refused(layers).starts_with("/nowhere/cadre.toml: cannot be read: "));
}

#[test]
fn the_bus_is_what_the_keys_say() {
    let text = "[node]\nname = 'n1'\n[bus]\ndriver = 'nats'\nservers = ['nats://a:1', 'tls://b:2']\n\
                user = 'ada'\npassword = 'hush'\ntls_ca_file = '/ca.pem'\nconnect_timeout = '2s'";
    let (config, _) = Config::of(file(text)).unwrap();
    let Bus::Nats(nats) = &config.bus else { panic!("{:?}", config.bus) };
    assert_eq!(nats.servers, ["nats://a:1", "tls://b:2"]);
    assert_eq!((nats.name.as_str(), nats.connect_timeout_ms), ("n1", 2_000));
    assert!(nats.tls.as_ref().is_some_and(|tls| tls.required && tls.client_cert_file.is_none()));
    let shown = format!("{:?} {config:?}", nats.credentials);
    assert!(shown.contains("Password") && !shown.contains("hush"), "{shown}");
}

#[test]
fn what_is_shown_has_no_secrets_and_can_be_read_again() {
    let text = "[node]\nname = 'n1'\n[bus]\ndriver = 'nats'\nservers = ['nats://ada:hush@a:1', 'nats://b']\n\
                token = 'hush'\n[store]\ntls_password = 'hush'\n[telemetry]\notlp_headers = ['authorization=hush']\n\
                otlp_endpoint = 'http://hush@c:4318'";
    let (_, layers) = Config::of(file(text)).unwrap();
    let (toml, json) = (show::to_toml(&layers, true), show::to_json(&layers, true).to_string());
    let some = show::to_toml(&layers, false);
    for shown in [&toml, &json, &some] {
        assert!(!shown.contains("hush"), "{shown}");
        assert!(shown.contains("nats://***@a:1") && shown.contains("nats://b"), "{shown}");
    }
    assert!(toml.contains("shards = 256 # the default\n") && !some.contains("shards"), "{toml}");
    let (_, again) = Config::of(file(&toml)).unwrap();
    assert_eq!(show::to_toml(&again, true).lines().count(), toml.lines().count());
}

#[test]
fn a_variable_that_is_nearly_a_key_is_noticed_and_one_of_kubernetes_is_not() {
    let variables =
        ["CADRE_NODE_NAMES", "CADRE_GATEWAY_SERVICE_HOST", "CADRE_PORT", "CADRE_URL", "CADRE_LISTEN", "PATH"];
    let found = misspelt(variables.into_iter().map(str::to_owned));
    assert_eq!(found, [("CADRE_NODE_NAMES".to_owned(), "CADRE_NODE_NAME".to_owned())]);
}

#[test]
fn the_documentation_has_every_key() {
    let page = include_str!("../../docs/configuration.md");
    assert!(
        page.contains(&show::reference()),
        "docs/configuration.md needs this table:\n{}",
        show::reference()
    );
}
