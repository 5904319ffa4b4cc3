//! These paths, for the document that describes the API.

use serde_json::{Map, Value, json};

/// Each path with its methods: what it does, and what its body may say.
pub(in crate::http) fn document() -> Map<String, Value> {
    let text = json!({ "type": "string" });
    let tenant = json!({ "tenantId": text, "title": text });
    let change = json!({ "title": text, "status": { "type": "string", "enum": ["active", "suspended"] } });
    let key = json!({ "name": text, "scopes": { "type": "array", "items": text }, "expiresAt": { "type": "string", "format": "date-time" } });
    let rotation = json!({ "graceSeconds": { "type": "integer", "minimum": 0 } });
    let number = json!({ "type": ["integer", "null"], "minimum": 0 });
    let quotas: Map<_, _> =
        crate::tenant::Quotas::NAMES.iter().map(|name| ((*name).to_owned(), number.clone())).collect();
    let (of_tenant, of_key) = ("/v1/admin/tenants/{tenantId}", "/v1/admin/tenants/{tenantId}/keys/{keyId}");
    let entries = [
        ("/v1/admin/tenants", "get", "list_tenants", "Tenants, by name.", None),
        ("/v1/admin/tenants", "post", "create_tenant", "Makes a tenant.", Some(tenant)),
        (of_tenant, "get", "get_tenant", "A tenant.", None),
        (of_tenant, "patch", "change_tenant", "Changes a tenant.", Some(change)),
        ("/v1/admin/tenants/{tenantId}/keys", "get", "list_keys", "The keys of a tenant.", None),
        (
            "/v1/admin/tenants/{tenantId}/keys",
            "post",
            "create_key",
            "Makes a key; its text is said once.",
            Some(key),
        ),
        (of_key, "get", "get_key", "A key, without its secret.", None),
        (of_key, "delete", "revoke_key", "Takes a key back.", None),
        (
            "/v1/admin/tenants/{tenantId}/keys/{keyId}/rotate",
            "post",
            "rotate_key",
            "Replaces a key by another of the same name, scopes and end.",
            Some(rotation),
        ),
        ("/v1/admin/tenants/{tenantId}/quotas", "get", "get_quotas", "What a tenant may use.", None),
        (
            "/v1/admin/tenants/{tenantId}/quotas",
            "put",
            "set_quotas",
            "Says what a tenant may use; what is not named is not limited.",
            Some(Value::Object(quotas)),
        ),
    ];
    let mut paths = Map::new();
    for (path, method, id, summary, body) in entries {
        let item = paths.entry(path).or_insert_with(|| json!({}));
        item[method] = operation(path, id, summary, body);
    }
    paths
}

fn operation(path: &str, id: &str, summary: &str, body: Option<Value>) -> Value {
    let named = ["tenantId", "keyId"].into_iter().filter(|name| path.contains(&format!("{{{name}}}")));
    let parameters: Vec<_> = named
        .map(|name| json!({ "name": name, "in": "path", "required": true, "schema": { "type": "string" } }))
        .collect();
    let object = json!({ "application/json": { "schema": { "type": "object" } } });
    let mut operation = json!({
        "operationId": id,
        "tags": ["admin"],
        "summary": summary,
        "parameters": parameters,
        "responses": {
            "200": { "description": summary, "content": object },
            "default": { "$ref": "#/components/responses/Refused" },
        },
    });
    if let Some(properties) = body {
        let schema = json!({ "type": "object", "properties": properties });
        operation["requestBody"] = json!({ "content": { "application/json": { "schema": schema } } });
    }
    operation
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_in_a_path_is_described() {
        let paths = document();
        assert_eq!(paths.len(), 6);
        for (path, item) in &paths {
            for operation in item.as_object().unwrap().values() {
                let names = operation["parameters"].as_array().unwrap().len();
                assert_eq!(names, path.matches('{').count(), "{path}");
            }
        }
    }
}
