package org.flinkagents.durable.actions;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;

import java.util.Arrays;
import java.util.EnumSet;
import java.util.HashSet;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.TimeUnit;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.annotation.JsonTypeInfo;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.annotation.JsonTypeName;
import org.junit.jupiter.api.Test;

/** Arguments and events are told apart by their packed form, so it must not depend on the JVM. */
class PackedSetsTest {
    /** Two texts of one hash: a set of them has the order in which they came. */
    private static Set<Object> set(Object... items) {
        return new HashSet<>(Arrays.asList(items));
    }

    /** A bean with a set. */
    public static final class Tagged {
        public final Set<Object> tags;

        Tagged(Object... tags) {
            this.tags = set(tags);
        }
    }

    /** A bean whose sets have types that Jackson treats in its own ways. */
    public static final class Typed {
        @JsonTypeInfo(use = JsonTypeInfo.Id.NAME, property = "kind")
        public final Set<Item> items = new HashSet<>(Set.of(new Item()));

        public final Set<String> texts = new HashSet<>(Set.of("x"));
        public final Set<TimeUnit> units = EnumSet.of(TimeUnit.DAYS, TimeUnit.HOURS);
        public final Set<Integer> none = Set.of();
    }

    @JsonTypeName("item")
    public static final class Item {
        public final int n = 1;
    }

    @Test
    void setsInBeansAreWrittenAsJacksonWritesThem() {
        assertEquals(
                Map.of(
                        "items", List.of(Map.of("kind", "item", "n", 1L)),
                        "texts", List.of("x"),
                        "units", List.of("HOURS", "DAYS"),
                        "none", List.of()),
                Unpacker.unpack(Packer.pack(new Typed())));
    }

    private static void same(Object one, Object other) {
        assertArrayEquals(Packer.pack(one), Packer.pack(other));
    }

    @Test
    void d1EqualSetsAreTheSameWhateverTheirOrder() {
        assertNotEquals(List.copyOf(set("Aa", "BB")), List.copyOf(set("BB", "Aa")));
        same(set("Aa", "BB"), set("BB", "Aa"));
        same(Map.of("k", List.of(set("Aa", "BB"))), Map.of("k", List.of(set("BB", "Aa"))));
        same(new Tagged("Aa", "BB"), new Tagged("BB", "Aa"));
        same(List.of(new Tagged("Aa", "BB")), List.of(new Tagged("BB", "Aa")));
        same(set(set("Aa", "BB"), 1), set(1, set("BB", "Aa")));
    }

    @Test
    void aSetThatHasAnOrderKeepsIt() {
        Set<String> linked = new LinkedHashSet<>(List.of("b", "c", "a"));
        assertEquals(List.of("b", "c", "a"), Unpacker.unpack(Packer.pack(linked)));
        assertEquals(List.of("a", "b", "c"), Unpacker.unpack(Packer.pack(new TreeSet<>(linked))));
        assertEquals(List.of("a", "b", "c"), Unpacker.unpack(Packer.pack(new HashSet<>(linked))));
    }
}
