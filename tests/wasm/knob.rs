//! Where Envoy lacks `allow_on_headers_stop_iteration`, bodies never reach the filter.

use serde_json::json;

use crate::harness::{Client, MILLI, Proxy};
use crate::{check, config, play, prompt, status};

fn without_knob(clients: Vec<Client>) -> Proxy {
    let mut proxy = Proxy::new(1, 1, vec![config(json!({}))], clients);
    proxy.world().headers_stop = false;
    proxy.run();
    check(&proxy.world());
    proxy
}

#[test]
fn a_request_whose_body_does_not_come_goes_on_after_a_second() {
    let clients = vec![
        Client::completion(0, 1_000, &prompt('a')),
        Client::completion(0, 1_500, &prompt('a')),
    ];
    let proxy = without_knob(clients);
    let world = proxy.world();
    for (request, millis) in [(0, 2_000), (1, 2_500)] {
        assert_eq!(status(&world, request), "skipped;reason=header-stop");
        let at = world.exchanges[request].upstream.as_ref().unwrap().at / MILLI;
        assert!((millis..millis + 10).contains(&at), "{at}");
    }
    let metric = "burst_prefix_cache.knob_missing_requests_total";
    assert_eq!(world.witness.count(metric), 2);
    let log = world.witness.log.iter();
    let said = log.filter(|(_, line)| line.contains("allow_on_headers_stop_iteration"));
    assert_eq!(said.count(), 1, "said once");
}

#[test]
fn a_slow_upload_is_not_taken_for_it() {
    let client = Client::completion(0, 1_000, &prompt('a')).in_pieces(&[3_500, 3_600]);
    let proxy = play(config(json!({})), vec![client]);
    let world = proxy.world();
    assert_eq!(status(&world, 0), "alone");
    let metric = "burst_prefix_cache.knob_missing_requests_total";
    assert_eq!(world.witness.count(metric), 0);
}

#[test]
fn a_slow_upload_without_the_knob_goes_on_once_it_has_begun() {
    let client = Client::completion(0, 1_000, &prompt('a')).in_pieces(&[3_500, 3_600]);
    let proxy = without_knob(vec![client]);
    let world = proxy.world();
    assert_eq!(status(&world, 0), "skipped;reason=header-stop");
    let at = world.exchanges[0].upstream.as_ref().unwrap().at / MILLI;
    assert!((3_500..4_600).contains(&at), "{at}");
}

#[test]
fn a_client_that_leaves_while_its_body_does_not_come_is_forgotten() {
    let mut client = Client::completion(0, 1_000, &prompt('a'));
    client.leaves = Some(1_300 * MILLI);
    let proxy = without_knob(vec![client]);
    assert!(proxy.world().exchanges[0].upstream.is_none());
}
