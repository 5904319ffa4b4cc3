//! A gateway that asks for credentials, and those who have some.
#![allow(dead_code, reason = "each test file uses some of it")]

use cadre::{
    credential::{Access, AdminToken, Trust},
    http::Settings,
    tenant::{NewKey, Scopes},
};
use serde_json::{Value, json};

use crate::server::Server;

/// What the administrator of the tests shows.
pub const ADMIN: &str = "the-administrator-of-these-tests-0123456789";

pub fn required() -> Access {
    Access::Required(Trust { administrator: Some(AdminToken::parse(ADMIN).unwrap()), ..Trust::default() })
}

/// A server that asks, with nobody in it yet.
pub fn start() -> Server {
    Server::start_with(Settings { access: required(), ..Settings::default() })
}

pub fn bearer(token: &str) -> String {
    format!("Bearer {token}")
}

impl Server {
    pub fn as_token(&self, token: &str, method: &str, path: &str, body: &Value) -> (u16, Value) {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        self.json(method, path, &[("Authorization", &bearer(token))], body.as_bytes())
    }

    pub fn admin(&self, method: &str, path: &str, body: &Value) -> (u16, Value) {
        self.as_token(ADMIN, method, &format!("/v1/admin/{path}"), body)
    }

    pub fn call_as(&self, token: &str, name: &str, arguments: &Value) -> (u16, Value) {
        self.as_token(token, "POST", &format!("/v1/commands/{name}"), arguments)
    }

    pub fn tenant(&self, tenant: &str) {
        let (status, answer) = self.admin("POST", "tenants", &json!({ "tenantId": tenant }));
        assert_eq!((status, &answer["tenant"]["status"]), (200, &json!("active")), "{answer}");
    }

    /// A key of a tenant, by the admin API: its id and its text.
    pub fn key(&self, tenant: &str, scopes: &[&str]) -> (String, String) {
        let body = json!({ "name": format!("{tenant}'s"), "scopes": scopes });
        let (status, answer) = self.admin("POST", &format!("tenants/{tenant}/keys"), &body);
        assert_eq!(status, 200, "{answer}");
        (answer["key"]["keyId"].as_str().unwrap().into(), answer["token"].as_str().unwrap().into())
    }

    /// A key that is good for a moment only.
    pub fn key_for_ms(&self, tenant: &str, ms: u64) -> String {
        let directory = self.rig.runtime.tenants();
        let expires = Some(directory.now().after(std::time::Duration::from_millis(ms)));
        let new = NewKey { name: "short".into(), scopes: Scopes::USUAL, expires };
        self.tokio.block_on(directory.create_key(tenant, new)).unwrap().1.reveal()
    }
}
