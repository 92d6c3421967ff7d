//! How much memory placing a batch takes at most.

#[path = "support/heap.rs"]
mod heap;

use std::num::NonZeroU32;

use burst_prefix_cache::placement::{BalanceBy, Replica, Request, Rules, place};

/// 10,000 requests of 2,048 tokens, so 32 blocks, on 1,024 replicas; the first 8 blocks are the
/// same for all, so that they may say that they are chained.
fn peak(members: u64, k: u32, chained: bool) -> usize {
    let names: Vec<String> = (0..1024).map(|i| format!("replica-{i}")).collect();
    let replicas: Vec<Replica<'_>> = names.iter().map(|name| Replica::new(name)).collect();
    let blocks: Vec<Vec<u64>> = (0..10_000 / members)
        .flat_map(|group| std::iter::repeat_n(group, members as usize))
        .map(|group| {
            (0..32)
                .map(|i| if i < 8 { i } else { group << 8 | i })
                .map(|block: u64| block.wrapping_mul(0x9E37_79B9_7F4A_7C15))
                .collect()
        })
        .collect();
    let requests: Vec<Request<'_>> = blocks
        .iter()
        .map(|blocks| Request {
            chained,
            ..Request::new(blocks)
        })
        .collect();
    let rules = Rules {
        max_per_replica: NonZeroU32::new(k),
        min_colocate_blocks: 1,
        balance_by: BalanceBy::Tokens,
    };
    let (peak, placement) = heap::peak_of(|| place(&rules, &replicas, &requests));
    assert!((0..10_000).all(|i| placement.assigned(i).is_some()));
    peak
}

// One test, since the count is of the whole process.
#[test]
fn ten_thousand_requests_of_2k_tokens_take_less_than_20_mb() {
    for (members, k) in [(8, 0), (8, 1), (1, 0), (10_000, 1), (2, 1)] {
        for chained in [false, true] {
            let peak = peak(members, k, chained);
            println!("{members} members, k = {k}, {chained}: {} kB", peak / 1000);
            assert!(peak < 20_000_000, "{members} members, k = {k}: {peak} B");
        }
    }
}
