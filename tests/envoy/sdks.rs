//! The official Python clients through Envoy: what they send is read and held, and what they get
//! is what they expect.

use crate::clients::run;
use crate::fleet::Fleet;

/// Every call of the script was held in a window, and none was more than the filter can read.
async fn check(fleet: &Fleet) {
    assert!(fleet.envoy.stat("outcome.alone.requests_total").await > 0);
    let page = fleet.envoy.page("/stats?filter=unreadable").await;
    assert!(!page.contains("unreadable"), "{page}");
    assert_eq!(fleet.envoy.faults(), [""; 0]);
}

#[tokio::test]
async fn the_openai_client_works_through_envoy() {
    let fleet = Fleet::start(20, &[]).await;
    run("openai_sdk.py", &format!("http://{}", fleet.envoy.address));
    check(&fleet).await;
}

#[tokio::test]
async fn the_anthropic_client_works_through_envoy() {
    let fleet = Fleet::start(20, &[]).await;
    run(
        "anthropic_sdk.py",
        &format!("http://{}", fleet.envoy.address),
    );
    check(&fleet).await;
}
