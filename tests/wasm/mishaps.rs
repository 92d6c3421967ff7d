//! What single mishaps do, and what they leave alone.

use serde_json::json;

use crate::harness::{Client, Event, Fate, MILLI, Proxy};
use crate::{ENDPOINT, STATUS, check, config, header, held, play, prompt, status};

#[test]
fn many_requests_of_a_worker_are_released_in_steps() {
    let clients = (0..300)
        .map(|_| Client::completion(0, 1_000, &prompt('a')))
        .collect();
    let proxy = play(config(json!({})), clients);
    let world = proxy.world();
    assert_eq!(world.witness.most_resumed, 64);
    for request in 0..300 {
        assert_eq!(status(&world, request), "assigned;group=300");
        assert!(held(&world, request) < 110, "{}", held(&world, request));
    }
}

#[test]
fn a_request_goes_on_though_the_host_takes_no_header() {
    let clients = vec![
        Client::completion(0, 1_000, &prompt('a')),
        Client::completion(0, 1_000, &prompt('a')),
        Client::post(0, 1_000, "/v1/completions", b"{"),
    ];
    let mut proxy = Proxy::new(1, 1, vec![config(json!({}))], clients);
    proxy.world().faults.refuse_headers_one_in = 1;
    proxy.run();
    let world = proxy.world();
    check(&world);
    for request in 0..3 {
        assert_eq!(header(&world, request, STATUS), None);
        assert_eq!(header(&world, request, ENDPOINT), None);
    }
    assert_eq!(held(&world, 0), 100);
}

#[test]
fn a_client_that_has_gone_is_not_placed() {
    for leaves in [1_000, 1_050, 1_099] {
        let mut gone = Client::completion(0, 1_000, &prompt('a'));
        gone.leaves = Some(leaves * MILLI);
        let clients = vec![gone, Client::completion(1, 1_000, &prompt('a'))];
        let proxy = play(config(json!({})), clients);
        let world = proxy.world();
        assert_eq!(world.exchanges[0].fate, Some(Fate::Left));
        assert_eq!(world.exchanges[0].upstream, None);
        assert_eq!(status(&world, 1), "alone", "{leaves}");
    }
}

#[test]
fn a_client_that_goes_in_the_middle_of_its_body_is_forgotten() {
    let mut client = Client::completion(0, 1_000, &prompt('a')).in_pieces(&[1_010, 1_090]);
    client.leaves = Some(1_050 * MILLI);
    let proxy = play(config(json!({})), vec![client]);
    let world = proxy.world();
    assert_eq!(world.exchanges[0].upstream, None);
    assert!(world.fabric.data.is_empty(), "it never joined");
}

#[test]
fn a_log_line_in_between_ends_nothing() {
    let clients = vec![
        Client::completion(0, 1_000, &prompt('a')),
        Client::completion(1, 1_000, &prompt('a')),
    ];
    let mut proxy = Proxy::new(1, 2, vec![config(json!({}))], clients);
    proxy.world().plan(1_050 * MILLI, Event::Log(0));
    proxy.run();
    let world = proxy.world();
    check(&world);
    assert_eq!(status(&world, 0), "assigned;group=2");
}

#[test]
fn a_worker_that_dies_takes_its_own_streams_only() {
    let clients = vec![
        // The owner of the window, which dies.
        Client::completion(0, 1_000, &prompt('a')),
        Client::completion(1, 1_010, &prompt('a')),
        Client::completion(2, 1_020, &prompt('a')),
        // On the dead worker: while it is dead, and with a fresh VM.
        Client::completion(0, 1_100, &prompt('a')),
        Client::completion(0, 2_100, &prompt('a')),
    ];
    let mut proxy = Proxy::new(1, 3, vec![config(json!({}))], clients);
    {
        let mut world = proxy.world();
        world.faults.back_off = 1_000 * MILLI;
        let (thread, calls) = (0, 0);
        world.plan(1_050 * MILLI, Event::Trap { thread, calls });
    }
    proxy.run();
    let world = proxy.world();
    check(&world);
    for request in [0, 3] {
        assert_eq!(world.exchanges[request].fate, Some(Fate::Lost));
    }
    for request in [1, 2] {
        assert_eq!(status(&world, request), "assigned;group=2");
        assert!(held(&world, request) <= 400);
    }
    assert_eq!(status(&world, 4), "alone");
}

/// Whatever stands in headers and bodies, the filter passes it on.
#[test]
fn bytes_that_are_no_text_do_no_harm() {
    let odd = [
        &b"\xff\xfe"[..],
        b"",
        b"\xed\xa0\x80",
        b"%00",
        &[b'x'; 20_000],
    ];
    for bytes in odd {
        for name in [
            ":path",
            ":method",
            "content-encoding",
            "content-length",
            "x",
        ] {
            let mut client = Client::completion(0, 1_000, &prompt('a'));
            client.headers.replace(name, bytes.to_vec());
            play(config(json!({})), vec![client]);
        }
        play(
            config(json!({})),
            vec![Client::post(0, 1_000, "/v1/completions", bytes)],
        );
    }
}
