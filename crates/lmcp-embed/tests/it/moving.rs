//! Children that are sent to a host at another path, when not all of them can be.

use std::fs;

use lmcp_embed::Host;

use crate::{
    restart::{asleep, kill, label, server},
    visitor::private_folder,
};

#[test]
fn children_that_are_left_are_sent_though_one_has_no_folder_any_more() {
    let folder = private_folder();
    let (old, new) = (
        folder.path().join("old.sock"),
        folder.path().join("new.sock"),
    );
    let host = Host::start_at(server(), &old).unwrap();
    let (ann, bob) = (
        host.child("ann", "w").unwrap(),
        host.child("bob", "w").unwrap(),
    );
    let processes = [asleep(&ann), asleep(&bob)];
    fs::remove_dir_all(ann.folder()).unwrap();
    ann.detach();
    bob.detach();
    let state = host.move_to(&new).unwrap();
    let host = Host::setup().path(&new).resume(state).start(server());
    let labels: Vec<_> = host.unwrap().children().iter().map(label).collect();
    assert_eq!(labels, ["bob"]);
    processes.into_iter().for_each(kill);
}

#[test]
fn children_that_cannot_all_be_sent_stay_where_they_are() {
    let folder = private_folder();
    let (old, new) = (
        folder.path().join("old.sock"),
        folder.path().join("new.sock"),
    );
    let host = Host::start_at(server(), &old).unwrap();
    let children: Vec<_> = (0..8).map(|_| host.child("ann", "w").unwrap()).collect();
    let processes: Vec<_> = children.iter().map(asleep).collect();
    fs::create_dir(children[0].folder().join("identity.new")).unwrap();
    children.into_iter().for_each(|child| drop(child.detach()));
    assert!(host.move_to(&new).is_err());
    let host = Host::start_at(server(), &old).unwrap();
    assert_eq!(host.children().len(), 8);
    processes.into_iter().for_each(kill);
}
