package resurge.benchmark;

import java.util.Locale;
import org.apache.flink.api.common.functions.FlatMapFunction;
import org.apache.flink.util.Collector;

/** One row per match of `#(\w+)` in lower case, with what Python's `re` means by `\w`. */
final class Hashtags implements FlatMapFunction<String, String> {
    @Override
    public void flatMap(String text, Collector<String> out) {
        for (int mark = text.indexOf('#'); mark >= 0; ) {
            int end = mark + 1;
            while (end < text.length()) {
                int point = text.codePointAt(end);
                if (!isWord(point)) {
                    break;
                }
                end += Character.charCount(point);
            }
            if (end > mark + 1) {
                out.collect(text.substring(mark + 1, end).toLowerCase(Locale.ROOT));
            }
            mark = text.indexOf('#', end);
        }
    }

    private static boolean isWord(int point) {
        if (point < 128) {
            return point >= 'a' && point <= 'z' || point >= 'A' && point <= 'Z' || point >= '0' && point <= '9'
                    || point == '_';
        }
        int type = Character.getType(point);
        return Character.isLetter(point) || type == Character.DECIMAL_DIGIT_NUMBER
                || type == Character.LETTER_NUMBER || type == Character.OTHER_NUMBER;
    }
}
